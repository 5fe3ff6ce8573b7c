"""Dead letters of several stages in one category."""

from __future__ import annotations

import pyarrow as pa

from braid.engine import dead_letters
from braid.home.paths import Home


def test_letters_of_several_stages_are_published_once_each(home: Home) -> None:
    category = dead_letters.create(home.log(), "app.dead_letter")

    def entry(stage: str) -> object:
        text = pa.array(["x"])
        return dead_letters.write(category, dead_letters.letters(stage, text, text, text))

    first = dead_letters.DeadLetters(category, "a")
    second = dead_letters.DeadLetters(category, "b")
    assert first.publish(3, [entry("a")])
    assert second.publish(0, [entry("b")])
    assert not first.publish(3, [entry("a")])
    restarted = dead_letters.DeadLetters(home.log().open("app.dead_letter"), "a")
    assert not restarted.publish(3, [entry("a")])
    assert restarted.publish(4, [entry("a")])
    assert category.latest() == 2
