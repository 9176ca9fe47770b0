"""How calls of the API fail: as the C functions do, by errno, with a sentence besides."""


class ApiError(OSError):
    """`errno` is the code mrc.h or mrc_ctl.h documents.  Nothing was changed."""
