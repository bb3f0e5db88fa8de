"""Success in Pusher by kind of goal, pooled: `python tools/measure_pusher.py LIBRARY...`."""

import sys
from itertools import product

from measure_doorkey import main

_THIRDS = ("left", "centre", "right", "bottom", "middle", "top")
_NINTHS = [f"{row} {column}" for row in _THIRDS[3:] for column in _THIRDS[:3]]
_PUCKS = ("red", "blue")
_KINDS = {
    "hand in a third": [f"hand {third}" for third in _THIRDS],
    "hand in a ninth": [f"hand {ninth}" for ninth in _NINTHS],
    "one puck in a third": [f"{puck} {third}" for puck, third in product(_PUCKS, _THIRDS)],
    "one puck in a ninth": [f"{puck} {ninth}" for puck, ninth in product(_PUCKS, _NINTHS)],
    "both in given thirds": [f"red {one} and blue {other}" for one, other in product(_THIRDS, _THIRDS)],
    "both in given ninths": [f"red {one} and blue {other}" for one, other in product(_NINTHS, _NINTHS)],
}

if __name__ == "__main__":
    main(sys.argv[1:], _KINDS)
