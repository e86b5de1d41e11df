"""Registers the device before the first backward pass of the process, after which PyTorch accepts no new device."""

from tests.devices.shadow import shadow

shadow()
