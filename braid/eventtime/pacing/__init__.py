"""Pacing: which chunks of its inputs an operator takes next, so that their stream times stay together.

Everything here is a pure function of chunk records, an offset and a wall-clock time that is passed in
(section 5.2 of the paper): the same arguments give the same decision, bit for bit.
"""
