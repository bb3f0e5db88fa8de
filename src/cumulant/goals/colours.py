"""What people call a colour."""

from colorsys import rgb_to_hsv

# From where to where on the wheel of hues, in degrees; what lies between two names goes by both.
_HUES = {
    "red": (345, 390),
    "orange": (18, 48),
    "yellow": (48, 70),
    "green": (70, 175),
    "turquoise": (160, 195),
    "blue": (185, 255),
    "purple": (255, 330),
    "pink": (300, 350),
}
_GREYS = {"black": (0.0, 0.25), "grey": (0.2, 0.85), "white": (0.8, 1.01)}  # by value
_GREYISH = 0.15  # saturation
_BROWN = 0.7  # the value below which orange is brown, too
SYNONYMS = {"gray": "grey", "violet": "purple", "magenta": "pink", "cyan": "turquoise"}
COLOURS = (*_HUES, "brown", *_GREYS)
SHADES = ("light", "dark", "bright", "pale", "deep")


def names_of_colour(colour: str) -> tuple[str, ...]:
    """What a colour in hex may be called, its best name first.

    >>> names_of_colour("#56b4e9"), names_of_colour("#d55e00")
    (('blue',), ('orange', 'red'))
    >>> names_of_colour("#8c510a")[0]
    'brown'
    """
    hue, saturation, value = rgb_to_hsv(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    ranges, at = (_GREYS, value) if saturation < _GREYISH or value < 0.2 else (_HUES, 360 * hue)
    turns = (at, at + 360)  # red lies at both ends
    found = {
        name: min(abs(each - (low + high) / 2) for each in turns)
        for name, (low, high) in ranges.items()
        if any(low <= each < high for each in turns)
    }
    if "orange" in found and value < _BROWN:
        found["brown"] = -1
    return tuple(sorted(found, key=lambda name: found[name]))
