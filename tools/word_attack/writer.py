"""Phrases of every kind: goals together with what they mean, mistakes, noise, and what strains the language."""

import random
from collections.abc import Callable

from cumulant.goals.words import MAX_DEPTH
from word_attack.meaning import Atom, Node

THIRDS_X, THIRDS_Y = ("left", "centre", "right"), ("bottom", "middle", "top")
NOISE = ("anywhere", "x 1/7", "y 2,3/7", "x 1/3", "x 1,2/3 x 2,3/3 x 1,3/3", "sqare", "é", "💥", ",", "\x00", "y")
COLOURS = {  # sprite → how people call it; the last ones of these alone tell it from the others in the largest world
    "agent": ("white",),
    "square": ("blue", "light blue"),
    "circle": ("orange",),
    "triangle": ("green", "dark green"),
    "star": ("pink",),
    "diamond": ("yellow", "bright yellow"),
    "pentagon": ("orange", "red"),
    "hexagon": ("blue",),
    "cross": ("gray", "grey"),
}
ONES = ("agent", "triangle", "star", "diamond", "cross")  # whose colour is nobody else's
RELATIONS = (
    "above {}|below the {}|left of the {}|to the right of {}|on top of the {}|on the {}|near {}|next to the {}|"
    "touching {}|between the {} and agent|in the same place as {}|away from the {}|where the {} is"
).split("|")
LONG = 1000  # characters of a phrase, as many as a person may give


class Writer:
    """Writes phrases for a world's sprites; the same seed writes the same ones."""

    def __init__(self, sprites: tuple[str, ...], seed: int | str):
        """Draws from the seed alone."""
        self.sprites, self.rng = sprites, random.Random(seed)
        self.kinds: dict[str, tuple[float, Callable[[], str]]] = {
            "goals": (0.6, lambda: self.goal()[2]),
            "goals with mistakes": (0.15, self.mistaken),
            "random words": (0.1, self.words),
            "random text": (0.06, self.text),
            "long": (0.01, self.long),
            "nested": (0.04, self.nested),
            "straining": (0.04, self.straining),
            "relations": (0.02, self.relation),
        }

    def phrase(self) -> tuple[str, str]:
        """A phrase of any kind, and its kind."""
        kind = self.rng.choices(list(self.kinds), [share for share, _ in self.kinds.values()])[0]
        return kind, self.kinds[kind][1]()

    def goal(self, size: int = 0) -> tuple[Node | Atom, int, str]:
        """A goal with what it means: its structure, the bins that it speaks of, and its words."""
        bins = self.rng.choice((3,) * 6 + (1, 2, 4, 7, 9, 30, 99))
        node = self._node(bins, size or self.rng.choice((1, 1, 2, 2, 3, 4, 6, 8, 12)), False)
        return node, bins, self._dressed(self._text(node))

    def _node(self, bins: int, size: int, named: bool) -> Node | Atom:
        """A structure of so many conditions; `named` says whether a subject stands before it."""
        if size == 1:
            atom = self._atom(bins, named)
            return Node("not", (atom,)) if not atom.denied and self.rng.random() < 0.2 else atom
        if self.rng.random() < 0.15:
            return Node("not", (self._node(bins, size, named),))
        left = self.rng.randrange(1, size)
        first = self._node(bins, left, named)
        return Node(self.rng.choice(("and", "or")), (first, self._node(bins, size - left, True)))

    def _atom(self, bins: int, named: bool) -> Atom:
        number = self.rng.choice((1, 1, 1, 2, min(3, len(self.sprites))))
        sprites = () if named and self.rng.random() < 0.2 else tuple(self.rng.sample(self.sprites, number))
        allowed, words = self._third() if bins == 3 and self.rng.random() < 0.9 else self._cell(bins)
        return Atom(sprites, self.rng.random() < 0.6, bool(sprites) and self.rng.random() < 0.25, allowed, words)

    def _third(self) -> tuple[dict[str, tuple[int, ...]], str]:
        if self.rng.random() < 0.02:
            return {}, "anywhere"
        x, y = self.rng.randrange(3), self.rng.randrange(3)
        of_the_room = self.rng.choice(("", "", "", " edge", " wall", " of the room", " edge of the arena"))
        match self.rng.randrange(5):
            case 0:
                return {"x": (x,)}, self.rng.choice(("centre", "center")) if x == 1 else THIRDS_X[x] + of_the_room
            case 1:
                return {"y": (y,)}, THIRDS_Y[y] + (of_the_room if y != 1 else "")
            case 2 if (x, y) == (1, 1):
                return {"x": (x,), "y": (y,)}, self.rng.choice(("middle of the room", "centre of the arena"))
            case 2 if 1 not in (x, y):
                return {"x": (x,), "y": (y,)}, f"{THIRDS_Y[y]} {THIRDS_X[x]} corner{of_the_room.replace(' edge', '')}"
        # Beside a word of its own axis, centre or middle is of the other one; two of them are both.
        middles = ("centre", "center", "middle")
        words = [self.rng.choice(middles) if word in middles else word for word in (THIRDS_X[x], THIRDS_Y[y])]
        self.rng.shuffle(words)
        return {"x": (x,), "y": (y,)}, self.rng.choice((" ", "-", " of the ")).join(words)

    def _cell(self, bins: int) -> tuple[dict[str, tuple[int, ...]], str]:
        allowed = {
            axis: tuple(sorted(self.rng.sample(range(bins), self.rng.randint(1, min(bins, 5)))))
            for axis in self.rng.choice(("x", "y", "xy", "yx"))
        }
        comma = self.rng.choice((",", ", "))
        return allowed, " ".join(f"{a} {comma.join(str(b + 1) for b in cell)}/{bins}" for a, cell in allowed.items())

    def _text(self, node: Node | Atom, inside: str = "") -> str:
        if isinstance(node, Atom):
            subject = (" and " if node.every else " or ").join(map(self._called, node.sprites))
            return f"{subject} {'not ' * node.denied}{node.words}".strip()
        if node.kind == "not":
            return f"not {self._text(node.parts[0], 'not')}"
        text = f" {node.kind} ".join(self._text(part, node.kind) for part in node.parts)
        tighter = inside == "not" or (inside, node.kind) == ("and", "or")
        return f"({text})" if tighter or self.rng.random() < 0.1 else text

    def _called(self, sprite: str) -> str:
        """A sprite's name, sometimes with its colour, or its colour alone."""
        if self.rng.random() < 0.8:
            return sprite
        colour = self.rng.choice(COLOURS[sprite])
        alone = sprite in ONES or (len(self.sprites) == 3 and sprite != "agent")
        return f"{colour} one" if alone and self.rng.random() < 0.5 else f"{colour} {sprite}"

    def relation(self) -> str:
        """How things lie to each other, which no goal says."""
        one, other = self.rng.sample(self.sprites[1:], 2)
        before = self.rng.choice(("", "", f"{self._spot()} and ", f"{self._spot()} then "))
        return f"{before}{self._called(one)} {self.rng.choice(RELATIONS).format(self._called(other))}"

    def _dressed(self, text: str) -> str:
        """The same said with filler, capitals and punctuation."""
        match self.rng.randrange(4):
            case 0:
                return self.rng.choice(("get the {}", "Put {}.", "MOVE the {} !", "bring a {}")).format(text)
            case 1:
                return text.replace(" and ", ", and ").replace(" not ", " NOT the ").upper()
        return text

    def mistaken(self) -> str:
        """A goal with a few words or characters lost, doubled, moved or put in."""
        parts = self.rng.choice((str.split, list))(self.goal()[2])
        join = "" if parts and len(max(parts, key=len)) == 1 else " "
        for _ in range(self.rng.randint(1, 4)):
            i = self.rng.randrange(len(parts) + 1)
            match self.rng.randrange(4):
                case 0:
                    del parts[i : i + 1]
                case 1:
                    parts[i:i] = parts[i : i + 1]
                case 2:
                    parts.insert(i, self.rng.choice(("and", "or", "not", "(", ")", *NOISE, *self.sprites, *THIRDS_X)))
                case 3:
                    parts[i : i + 3] = self.rng.sample(parts[i : i + 3], len(parts[i : i + 3]))
        return join.join(parts)

    def words(self) -> str:
        """Words of the language in any order."""
        known = (*self.sprites, *THIRDS_X, *THIRDS_Y, "center", "and", "or", "not", "(", ")", "the")
        vocabulary = known * 3 + NOISE if self.rng.random() < 0.3 else known
        return " ".join(self.rng.choices(vocabulary, k=self.rng.randint(0, 30)))

    def text(self) -> str:
        """Any characters at all."""
        top = self.rng.choice((0x80, 0x250, 0x3000, 0x110000))
        return "".join(chr(self.rng.randrange(top)) for _ in range(self.rng.randint(0, 60)))

    def long(self) -> str:
        """A phrase of thousands of characters."""
        part = self.rng.choice((lambda: self.goal()[2], self._spot, self.words, self.text))
        join, length, phrase = self.rng.choice((" or ", " and ", " ")), self.rng.randint(1000, 6000), part()
        while len(phrase) < length:
            phrase += join + part()
        return self.rng.choice((phrase, f"not ({phrase})", "q" * length, "x 1" + ",1" * length, "the " * length))

    def nested(self) -> str:
        """A phrase at the edge of the deepest that is read."""
        depth, phrase = self.rng.randint(1, MAX_DEPTH + 5), self._spot()
        for _ in range(depth):
            match self.rng.randrange(4):
                case 0:
                    phrase = f"not {phrase}"
                case 1:
                    phrase = f"({phrase} {self.rng.choice(('and', 'or'))} {self._spot()})"
                case 2:
                    phrase = f"({self._spot()} {self.rng.choice(('and', 'or'))} ({phrase}))"
                case 3:
                    phrase = f"not ({phrase})"
        return phrase

    def straining(self) -> str:
        """Many alternatives at once, up to a thousand characters or so."""
        grid = self.rng.random() < 0.2
        spot = self._far_spot if grid else self._spot
        width, times = self.rng.randint(1, 3), self.rng.randint(2, 8)
        group = " and ".join(f"({' or '.join(spot() for _ in range(width + 1))})" for _ in range(times))
        denied = " and ".join(f"not ({spot()} and {spot()})" for _ in range(times))
        either = " or ".join(spot() for _ in range(8 * times))
        pairs = " and ".join(f"({sprite} left or top)" for sprite in self.sprites[:6])  # as many as are allowed
        phrases = (group, denied, either, pairs, f"{group} and {group}", f"not ({either})", f"not ({denied})")
        chosen = self.rng.choice(phrases)
        return " and ".join([chosen] * self.rng.choice((1, 1, 1, max(1, LONG // len(chosen)))))

    def _spot(self) -> str:
        return f"{self.rng.choice(self.sprites)} {self.rng.choice(THIRDS_Y)} {self.rng.choice(THIRDS_X)}"

    def _far_spot(self) -> str:
        return f"{self.rng.choice(self.sprites)} not {self.rng.choice('xy')} {self.rng.randint(1, 99)}/99"
