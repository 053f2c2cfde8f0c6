"""The one gate through which data leave: output noise, its design, and its python-control systems."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "_eavesdropper": ["Eavesdropper", "eavesdropper"],
        "boxes": ["PlantBox"],
        "design": ["design_output_noise"],
        "iosystem": ["create_channel_iosystem", "create_noise_iosystem"],
        "noise": ["OutputNoise"],
        "windows": ["design_windows", "windows_guarantee"],
    },
)
