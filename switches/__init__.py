"""The switch: what every back end promises, the P4 program as a model, and the back ends."""
