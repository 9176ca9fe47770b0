/* Feeds the files named on the command line to engine.c, where there is no libFuzzer to do it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_MAX (1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    static uint8_t buffer[INPUT_MAX];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file) return 2;
        size_t size = fread(buffer, 1, sizeof buffer, file);
        fclose(file);
        uint8_t *exact = malloc(size ? size : 1);
        if (!exact) return 2;
        for (size_t j = 0; j < size; j++) exact[j] = buffer[j];
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    return 0;
}
