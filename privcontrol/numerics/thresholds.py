"""Thresholds that several rooms share, each with its reason; no sizes of single algorithms."""

from __future__ import annotations

#: Relative error that sums, products, roots and eigenvalues of doubles stay below. A claim
#: is raised by it, and numbers that differ by less are equal.
ROUNDED = 1e-9
#: Relative error of a few sums of doubles, and the precision at which an iteration that
#: converges quickly ends: less is lost in the next product.
FINE = 1e-12
#: Relative size of what is left out of a sum: some hundreds of times the rounding of its
#: largest term.
NEGLIGIBLE = 1e-13
#: Relative error of a solution from which on the double nearest to it is known, and sums
#: of many such solutions as well.
NEAREST = 2.0**-60
#: Relative error of a response, shift or excess that is worth no more work. It is paid for
#: in noise, which grows by as little.
SHARP = 1e-10
#: Relative error that does while a search is on its way, or of what takes seconds to
#: sharpen: nobody pays for more digits there.
ROUGH = 1e-3
#: Relative error from which on a number is not known: nothing is certified with it, and
#: what is certain to it in doubles is widened by as much.
CERTAIN = 1e-6
#: Relative difference of costs that are alike: rounding must not choose between them, and
#: nobody pays for more.
ALIKE = 1e-6
#: Relative size below which a direction counts as one that outputs do not see, and a mode
#: as one that no move excites.
UNSEEN = 1e-10
#: Relative size to which thin directions of a shape are widened, so that it has an inverse.
#: What nobody moves along costs nothing, and a bare direction would be a leak.
THINNEST = 1e-9
#: Relative size of the least price or weight in a search, so that an optimum exists where
#: a direction is free or a move does not count.
LEAST_PRICE = 1e-6
#: Relative difference of units up to which a plant is symmetric in them: models have seven
#: digits.
SYMMETRIC = 1e-7
#: Distance from the unit circle to which rounding may throw a pole on it: a double root
#: loses half of the digits.
ON_CIRCLE = 1e-6
#: Relative excess or error from which on it is no rounding any more: a claim with it is
#: refused, where a smaller one makes noise larger.
LARGEST_EXCESS = 1e-3
#: Times that noise is made larger at most to keep a budget.
LARGEST_FACTOR = 1e12
#: Smallest number that is told from zero, with some room above what underflows.
SMALLEST = 1e-300
#: Sizes, and their reciprocals, that leave room for squares in a double.
LARGEST_SIZE = 1e100
#: Rounds of a search that has not converged. Those that converge take half as many.
MOST_ROUNDS = 60
#: Rounds of a search that has not converged, where each of them takes long.
FEW_ROUNDS = 12
#: Doublings of a time after which a sum over all times has ended, and any run as well.
DOUBLINGS = 64
#: Steps that a system or a filter is given to settle.
SETTLING = 20_000
#: Samples that a response is followed for until it has decayed.
LATEST = 1 << 19
#: Steps or trials beyond which a number is a slip: they take hours.
MOST_STEPS = 10**8
#: Samples of a run, times what it has at each, up to which all of it is looked at.
SHORT_RUN = 1000
#: Dimensions of a run from which on a shorter way is looked for. Below, dense matrices take
#: a fraction of a second.
MANY_DIMENSIONS = 128
#: States up to which systems are multiplied in balls or rationals, in about a second.
MOST_STATES_IN_BALLS = 64
#: Signs of which all patterns are listed, 4,096.
MOST_SIGNS = 12
#: Speed: numbers that are held at once, 16 MB.
BLOCK = 1 << 21
#: Speed: numbers of a pass that stays in a cache, 128 KB.
CACHED = 1 << 14
#: Seconds that somebody waits for an answer before a word about it, or for one of many.
PATIENCE = 10.0
#: Names that a text lists. Of more it gives the number.
MOST_NAMED = 5
#: Samples of the longest change, every length of which is a move of its own, and of the
#: longest delay.
LONGEST = 10_000
#: Numbers of the largest table that is worth its memory, 268 MB. What needs a larger one
#: is bounded, or refused, in another way.
MOST_HELD = 1 << 25
