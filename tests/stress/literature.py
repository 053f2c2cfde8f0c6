"""Thirty plants of the literature, as numbers. Only A and C are needed here.

Twenty are of COMPleib (F. Leibfritz, COMPleib: COnstrained Matrix-optimization Problem
library, tech. report, University of Trier, 2004), which names the sources that stand beside
them: those whose names begin with AC or DIS, and AGS, BDT1, MFP, UWV, TG1 and EB1. Their A
and C are typed from a stored copy of its file COMPleib.m, version 1.1 of 2005, and were
compared with it. A of AC1, AC4, AC7, AC8, AC12, BDT1, UWV and DIS5 was also compared, to the
last digit, with the data of the Python package controlgym 1.0.0. Nobody has compared the
numbers with the papers that COMPleib names.

The other ten are rebuilt from formulas or parameters of textbooks and papers: the beams of
10 and 20 modes (EB1 with more modes, which nobody published), the quadruple tank, the
pendulum, the DC motor, aircraft pitch, the two masses, the heat rod, the distillation column
and the vehicle.
"""

import numpy as np


def continuous() -> dict[str, tuple[np.ndarray, np.ndarray, str]]:
    """A, C and source by name, in continuous time."""
    plants = {
        "AC1": (
            [
                [0, 0, 1.132, 0, -1],
                [0, -0.0538, -0.1712, 0, 0.0705],
                [0, 0, 0, 1, 0],
                [0, 0.0485, 0, -0.8556, -1.013],
                [0, -0.2909, 0, 1.0532, -0.6859],
            ],
            np.eye(3, 5),
            "Hung and MacFarlane 1982, aircraft",
        ),
        "AC3": (
            [
                [0, 0, 1, 0, 0],
                [0, -0.154, -0.0042, 1.54, 0],
                [0, 0.249, -1, -5.2, 0],
                [0.0386, -0.996, -0.0003, -0.117, 0],
                [0, 0.5, 0, 0, -0.5],
            ],
            [[0, 1, 0, 0, -1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]],
            "Edwards and Spurgeon 1994, L-1011",
        ),
        "AC4": (
            [
                [-0.876, 1, -0.1209, 0],
                [8.9117, 0, -130.75, 0],
                [0, 0, -150, 0],
                [-1, 0, 0, -0.05],
            ],
            [[-1, 0, 0, 0], [0, -1, 0, 0]],
            "Fares, Apkarian and Noll 2001, missile",
        ),
        "AC6": (
            [
                [0, 0, 1, 0, 0, 0, 0],
                [0, -0.154, -0.0042, 1.54, 0, -0.744, -0.032],
                [0, 0.249, -1, -5.2, 0, 0.337, -1.12],
                [0.0386, -0.996, -0.0003, -2.117, 0, 0.02, 0],
                [0, 0.5, 0, 0, -4, 0, 0],
                [0, 0, 0, 0, 0, -20, 0],
                [0, 0, 0, 0, 0, 0, -25],
            ],
            [
                [0, -0.154, -0.0042, 1.54, 0, -0.744, -0.032],
                [0, 0.249, -1, -5.2, 0, 0.337, -1.12],
                [1, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 1, 0, 0],
            ],
            "COMPleib, L-1011 with actuators",
        ),
        "AC7": (
            [
                [-0.06254, 0.01888, 0, -0.56141, -0.02751, 0, 0.06254, -0.00123, 0],
                [0.01089, -0.9928, 0.99795, 0.00097, -0.07057, 0, -0.01089, 0.06449, 0],
                [0.07743, 1.6754, -1.31111, -0.0003, -4.2503, 0, -0.07743, -0.10883, 0],
                [0, 0, 1, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, -20, 20, 0, 0, 0],
                [0, 0, 0, 0, 0, -30, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, -0.88206, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, -0.88206, 0.00882],
                [0, 0, 0, 0, 0, 0, 0, -0.00882, -0.88206],
            ],
            [
                [
                    -0.00519,
                    0.47604,
                    0.00098,
                    -0.00031,
                    0.03378,
                    0,
                    0.00519,
                    -0.03086,
                    0,
                ],
                [0, 0, 1, 0, 0, 0, 0, 0, 0],
            ],
            "Gangsaas and others 1986, transport aircraft",
        ),
        "AC8": (
            [
                [-0.01365, 0.178, 0.00017, -0.561, -0.03726, 0, 0.01365, -0.01311, 0],
                [-0.01516, -0.752, 1.001, 0.00127, -0.06311, 0, 0.01516, 0.05536, 0],
                [0.00107, 0.07896, -0.8725, 0, -3.399, 0, -0.00107, -0.00581, 0],
                [0, 0, 1, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, -20, 10.72, 0, 0, 0],
                [0, 0, 0, 0, 0, -50, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, -0.4447, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, -0.4447, 0.0044],
                [0, 0, 0, 0, 0, 0, 0, -0.0044, -0.4447],
            ],
            [
                [0.00646, 0.3203, -0.03358, 0, -0.1032, 0, -0.00646, -0.02358, 0],
                [1, 0, 0, 0, 0, 0, -1, 0, 0],
                [-0.01365, 0.178, 0.00017, -0.561, -0.03726, 0, 0.01365, -0.01311, 0],
                [0, -13.58, 0, 13.58, 0, 0, 0, 0, 0],
                [0, 0, 1, 0, 0, 0, 0, 0, 0],
            ],
            "Gangsaas and others 1986, transport aircraft in cruise",
        ),
        "AC11": (
            [
                [-1.341, 0.9933, 0, -0.1689, -0.2518],
                [43.223, -0.8693, 0, -17.251, -1.5766],
                [1.341, 0.0067, 0, 0.1689, 0.2518],
                [0, 0, 0, -20, 0],
                [0, 0, 0, 0, -20],
            ],
            [
                [0, 0, 1, 0, 0],
                [47.76, -0.268, 0, -4.56, 4.45],
                [0, 0, 0, 1, 0],
                [0, 0, 0, 0, 1],
            ],
            "Alexandridis and Paraskevopoulos 1996, aircraft",
        ),
        "AC12": (
            [
                [-0.0017, 0.0413, -5.3257, -9.7565],
                [-0.0721, -0.3393, 49.5146, -1.0097],
                [-0.0008, 0.0138, -0.2032, 0.0009],
                [0, 0, 1, 0],
            ],
            [
                [0, 0, 57.2958, 0],
                [0, 0, 0, 57.2958],
                [0.1045, -0.9945, 0.1375, 51.5791],
                [-0.0002, 0.0045, 0, 0],
            ],
            "Toffner-Clausen 1996, ASTOVL aircraft",
        ),
        "AC15": (
            [
                [-0.037, 0.0123, 0.00055, -1],
                [0, 0, 1, 0],
                [-6.37, 0, -0.23, 0.0618],
                [1.25, 0, 0.016, -0.0457],
            ],
            [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
            "IEEE TAC 19 (1974) 257, supersonic transport",
        ),
        "DIS2": (
            [[-4, 2, 1], [3, -2, 5], [-7, 0, 3]],
            [[0, 1, 0], [0, 0, 1]],
            "Liu and Sreeram, two control stations",
        ),
        "DIS3": (
            [
                [-1, 0, 0, 0, 0, 0],
                [-1, 1, 1, 0, 0, 0],
                [1, -2, -1, -1, 1, 1],
                [0, 0, 0, -1, 0, 0],
                [-8, 1, -1, -1, -2, 0],
                [4, -0.5, 0.5, 0, 0, -4],
            ],
            np.eye(6)[[1, 2, 4, 5]],
            "Saif and Guan 1992, interconnected system",
        ),
        "DIS4": (
            [
                [0, 1, 0.5, 1, 0.6, 0],
                [-2, -3, 1, 0, 0, 1],
                [0, 2, 0.5, 1, 1, 0.5],
                [1, 3, 0, 0.5, 0, -0.5],
                [0, 1, 1, 0, 1, 0],
                [-3, -4, 0, 0.5, 0.5, 0],
            ],
            np.eye(6),
            "Toivonen and Makila 1985, decentralised",
        ),
        "AGS": (
            np.zeros((12, 12)),
            [
                [0.264, 0.806, -1.42, -15, 0, 0, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0, 4.9, 2.12, 1.95, 9.35, 25.8, 7.14, 0],
            ],
            "Hung and MacFarlane 1982, automobile gas turbine",
        ),
        "BDT1": (
            np.zeros((11, 11)),
            np.eye(11)[[9, 0, 10]],
            "Davison 1990, binary distillation tower",
        ),
        "MFP": (
            [
                [0, 0, 1, 0],
                [0, 0, 0, 1],
                [-0.101, -0.1681, -0.04564, -0.01075],
                [0.06082, -2.1407, -0.05578, -0.1273],
            ],
            np.eye(2, 4),
            "Scherer, Gahinet and Chilali 1997, moored platform",
        ),
        "UWV": (
            [
                [0, 850, 0, 0, 0, 0, 0, 0],
                [-850, -120, -4100, 0, 0, 0, 0, 0],
                [33, 0, -33, 0, -700, 0, 0, 0],
                [0, 0, 0, 0, 1400, 0, 0, 0],
                [0, 0, 1600, -450, -110, 0, 0, 0],
                [0, 0, 0, 81, 0, -1, 0, -900],
                [0, 0, 0, 0, 0, 0, 0, 110],
                [0, 0, 0, 0, 0, 12, -1.1, -22],
            ],
            np.eye(8)[[5, 6]],
            "Davison 1990, underwater vehicle",
        ),
        "TG1": (
            [
                [0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                [
                    0,
                    -0.11323,
                    -0.98109,
                    -11.847,
                    -11.847,
                    -63.08,
                    -34.339,
                    -34.339,
                    -27.645,
                    0,
                ],
                [
                    324.121,
                    -1.1755,
                    -29.101,
                    0.12722,
                    2.83448,
                    -967.73,
                    -678.14,
                    -678.14,
                    0,
                    -129.29,
                ],
                [
                    -127.3,
                    0.46167,
                    11.4294,
                    -1.0379,
                    13.1237,
                    380.079,
                    266.341,
                    266.341,
                    0,
                    1054.85,
                ],
                [
                    -186.05,
                    0.67475,
                    16.7045,
                    0.86092,
                    -17.068,
                    555.502,
                    389.268,
                    389.268,
                    0,
                    -874.92,
                ],
                [
                    341.917,
                    1.09173,
                    1052.75,
                    756.465,
                    756.465,
                    -29.774,
                    0.16507,
                    3.27626,
                    0,
                    0,
                ],
                [
                    -30.748,
                    -0.09817,
                    -94.674,
                    -68.029,
                    -68.029,
                    2.67753,
                    -2.6558,
                    4.88497,
                    0,
                    0,
                ],
                [
                    -302.36,
                    -0.96543,
                    -930.96,
                    -668.95,
                    -668.95,
                    26.3292,
                    2.42028,
                    -9.5603,
                    0,
                    0,
                ],
                [0, 0, 0, 0, 0, 0, 0, 0, -1.6667, 0],
                [0, 0, 0, 0, 0, 0, 0, 0, 0, -10],
            ],
            [
                [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                [-0.49134, 0, -0.63203, 0, 0, -0.20743, 0, 0, 0, 0],
            ],
            "Hung and MacFarlane 1982, turbo-generator",
        ),
        "EB1": (*beam(5), "Geromel and Gapski 1997, beam with 5 modes"),
        "beam, 10 modes": (*beam(10), "EB1 with more modes"),
        "beam, 20 modes": (*beam(20), "EB1 with more modes"),
        "quadruple tank": (
            [
                [-1 / 62, 0, 1 / 23, 0],
                [0, -1 / 90, 0, 1 / 30],
                [0, 0, -1 / 23, 0],
                [0, 0, 0, -1 / 30],
            ],
            0.5 * np.eye(2, 4),
            "Johansson 2000",
        ),
        "pendulum": (
            [
                [0, 1, 0, 0],
                [0, -0.1818, 2.6727, 0],
                [0, 0, 0, 1],
                [0, -0.4545, 31.1818, 0],
            ],
            np.eye(4)[[0, 2]],
            "Control Tutorials for MATLAB, inverted pendulum",
        ),
        "DC motor": (
            [[-10, 1], [-0.02, -2]],
            [[1, 0]],
            "Control Tutorials for MATLAB, motor speed",
        ),
        "aircraft pitch": (
            [[-0.313, 56.7, 0], [-0.0139, -0.426, 0], [0, 56.7, 0]],
            [[0, 0, 1]],
            "Control Tutorials for MATLAB, aircraft pitch",
        ),
        "two masses": (
            [[0, 0, 1, 0], [0, 0, 0, 1], [-1, 1, 0, 0], [1, -1, 0, 0]],
            [[0, 1, 0, 0]],
            "Wie and Bernstein 1992",
        ),
        "heat rod": (
            21**2 * (np.eye(20, k=1) + np.eye(20, k=-1) - 2 * np.eye(20)),
            np.eye(20)[[4, 14]],
            "the heat equation by central differences, 20 cells",
        ),
        "distillation": (
            -np.eye(2) / 75,
            [[0.878, -0.864], [1.082, -1.096]],
            "Skogestad, Morari and Doyle 1988",
        ),
    }
    turbine = plants["AGS"][0]
    for row, values in {
        1: {0: -0.202, 1: -1.15},
        4: {2: -2.36, 3: -13.6, 4: -12.8},
        7: {5: -1.62, 6: -9.4, 7: -9.15},
        11: {8: -188, 9: -111.6, 10: -116.4, 11: -20.8},
    }.items():
        for column, value in values.items():
            turbine[row, column] = value
    for row in (0, 2, 3, 5, 6, 8, 9, 10):
        turbine[row, row + 1] = 1.0
    tower = plants["BDT1"][0]
    own = [0.014, 0.0138, 0.0141, 0.0158, 0.0312, 0.0352, 0.0422, 0.0482, 0.0572]
    tower -= np.diag([*own, 0.0483, 0.0185])
    above = [0.0043, 0.0046, 0.0063, 0.011, 0.015, 0.022, 0.028, 0.037, 0.042, 0.0005]
    below = [0.0095] * 4 + [0.0202] * 5 + [0.0255]
    tower += np.diag(above, 1) + np.diag(below, -1)
    for row, value in {1: 0.0005, 2: 0.0002, 7: 0.0002, 8: 0.0005}.items():
        tower[row, 10] = value
    tower[10, 0] = 0.0255
    return {
        name: (np.array(A, float), np.array(C, float), source)
        for name, (A, C, source) in plants.items()
    }


def discrete() -> dict[str, tuple[np.ndarray, np.ndarray, str]]:
    """A, C and source by name, in discrete time."""
    plants = {
        "AC5": (
            [
                [0.9801, 0.0003, -0.098, 0.0038],
                [-0.3868, 0.9071, 0.0471, -0.0008],
                [0.1591, -0.0015, 0.9691, 0.0003],
                [-0.0198, 0.0958, 0.0021, 1],
            ],
            [[1, 0, 0, 0], [0, 0, 0, 1]],
            "Ishihara, Guo and Takeda 1992, B-747",
        ),
        "DIS5": (
            [
                [0.8189, 0.0863, 0.09, 0.0813],
                [0.2524, 1.0033, 0.0313, 0.2004],
                [-0.0545, 0.0102, 0.7901, -0.258],
                [-0.1918, -0.1034, 0.1602, 0.8604],
            ],
            [[1, 0, 0, 0], [0, 0, 1, 0]],
            "de Oliveira, Camino and Skelton, discrete model",
        ),
        "vehicle": ([[1, 0.1], [0, 1]], [[1, 0]], "Ren and others, DPAM eq. (23)"),
    }
    return {
        name: (np.array(A, float), np.array(C, float), source)
        for name, (A, C, source) in plants.items()
    }


def beam(modes: int) -> tuple[np.ndarray, np.ndarray]:
    """Modes of an Euler-Bernoulli beam with 1 % damping, its velocity measured."""
    A = np.zeros((2 * modes, 2 * modes))
    C = np.zeros((1, 2 * modes))
    for k in range(modes):
        frequency = (k + 1) ** 2
        A[2 * k, 2 * k + 1] = 1.0
        A[2 * k + 1, 2 * k] = -(frequency**2)
        A[2 * k + 1, 2 * k + 1] = -0.02 * frequency
        C[0, 2 * k + 1] = np.sin(0.55 * np.pi * (k + 1))
    return A, C
