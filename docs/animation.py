"""README's animation: the page to play with, while epsilon falls and rises again.

    python docs/animation.py

It needs Chromium, which takes a picture of the page for each value. Pages of
``docs/_static/play`` have no clock, so each frame is a copy with its own first value.
"""

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
PAGE = HERE / "_static" / "play"
FIGURE = HERE / "figures" / "room_to_play_with.gif"

#: The slider's values, 10 log10(epsilon): from 4 down to 0.1.
VALUES = range(6, -11, -2)
#: Width and height of the window in CSS pixels, and those of the frames.
WINDOW = (760, 1190)
FRAME = (560, 877)
#: Milliseconds of a frame, and of the first and the last.
SHORT, LONG = 450, 1800


def picture(value: int) -> Image.Image:
    """The page as the browser shows it at a value of the slider."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "play"
        shutil.copytree(PAGE, page)
        index = page / "index.html"
        text, found = re.subn(
            r'(<input id="epsilon" [^>]*value=)"-?\d+"',
            rf'\1"{value}"',
            index.read_text("utf8"),
        )
        if found != 1:
            sys.exit("the page has no slider for epsilon any more")
        index.write_text(text, "utf8")
        shot = Path(folder) / "shot.png"
        subprocess.run(
            [
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--window-size={WINDOW[0]},{WINDOW[1]}",
                f"--screenshot={shot}",
                f"--user-data-dir={folder}/profile",
                index.as_uri(),
            ],
            check=True,
            capture_output=True,
            timeout=60,
        )
        whole = Image.open(io.BytesIO(shot.read_bytes())).convert("RGB")
    return whole.resize(FRAME, Image.Resampling.LANCZOS)


def main() -> None:
    """Write the frames down and up again; all share the colours of the first."""
    down = [picture(value) for value in VALUES]
    palette = down[0].quantize(64)
    frames = [frame.quantize(palette=palette, dither=0) for frame in down]
    frames += frames[-2:0:-1]
    lengths = [SHORT] * len(frames)
    lengths[0] = lengths[len(down) - 1] = LONG
    frames[0].save(
        FIGURE,
        save_all=True,
        append_images=frames[1:],
        duration=lengths,
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    main()
