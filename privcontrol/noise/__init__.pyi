from .iosystem import (
    create_channel_iosystem as create_channel_iosystem,
    create_noise_iosystem as create_noise_iosystem,
)
