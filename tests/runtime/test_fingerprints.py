"""Fingerprints of random streams: they change with every draw, and with nothing else."""

from __future__ import annotations

import random

import numpy
import pytest
import torch

from accel_runtime import fingerprints

DRAWS = {
    "a number": random.random,
    "a normal number": lambda: random.gauss(0, 1),
    "NumPy's": numpy.random.rand,
    "NumPy's normal": numpy.random.randn,
    "torch's": lambda: torch.rand(1),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_each_draw_shows_also_that_of_a_number_that_was_kept(draw):
    for _ in range(3):
        before = fingerprints.of_main_streams()
        assert before == fingerprints.of_main_streams()
        draw()
        assert before != fingerprints.of_main_streams()


def test_a_state_that_is_put_back_has_the_fingerprint_of_then():
    from accel_runtime.rng import put_states, take_states

    numpy.random.seed(3)
    numpy.random.randn()
    states, then = take_states(), fingerprints.of_main_streams()
    numpy.random.randn()  # the kept one: the words of the generator stay as they are
    assert fingerprints.of_main_streams() != then
    put_states(states)
    assert fingerprints.of_main_streams() == then


def test_another_generator_of_numpy_is_asked_by_its_name():
    if not hasattr(numpy.random, "set_bit_generator"):
        pytest.skip("this NumPy has one generator only")
    usual = numpy.random.get_bit_generator()
    numpy.random.set_bit_generator(numpy.random.PCG64(1))
    try:
        before = fingerprints.of_main_streams()
        numpy.random.rand()
        assert fingerprints.of_main_streams() != before
    finally:
        numpy.random.set_bit_generator(usual)
