# SPDX-License-Identifier: BSD-3-Clause
"""The densities of Rezende & Mohamed 2015, table 1, as `meander train --target` has them; for numpy and torch alike.

U2 to U4 cannot be normalised: |z1| > 4 is closed by half a Gaussian of width EDGE.
"""

import math

EDGE = 0.25
BOX = 8 + EDGE * math.sqrt(2 * math.pi)
# U2 to U4 are normals in z2 at every z1: their log Z is exact. That of U1 is a quadrature.
LOG_Z = {"U1": 1.8775016,
         "U2": math.log(0.4 * math.sqrt(2 * math.pi) * BOX),
         "U3": math.log((0.35 + 0.35) * math.sqrt(2 * math.pi) * BOX),
         "U4": math.log((0.4 + 0.35) * math.sqrt(2 * math.pi) * BOX)}


def log_normal(x, width):
    return -0.5 * (x / width) ** 2


def log_density(np, name, z1, z2):
    """log p, up to log Z."""
    if name == "U1":
        ring = log_normal(np.sqrt(z1 * z1 + z2 * z2) - 2, 0.4)
        return ring + np.logaddexp(log_normal(z1 - 2, 0.6), log_normal(z1 + 2, 0.6))
    box = log_normal((abs(z1) - 4).clip(min=0), EDGE)
    away = z2 - np.sin(math.pi / 2 * z1)
    if name == "U2":
        return log_normal(away, 0.4) + box
    if name == "U3":
        shift = 3 * np.exp(log_normal(z1 - 1, 0.6))
        return np.logaddexp(log_normal(away, 0.35), log_normal(away + shift, 0.35)) + box
    shift = 1.5 * (1 + np.tanh((z1 - 1) / 0.6))  # 3 sigmoid((z1 - 1) / 0.3), which cannot overflow
    return np.logaddexp(log_normal(away, 0.4), log_normal(away + shift, 0.35)) + box
