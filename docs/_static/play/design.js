"use strict";
const DESIGN = {
 "schema": 3,
 "kind": "outputnoise",
 "plant": {
  "kind": "plant",
  "A": {
   "shape": [
    2,
    2
   ],
   "floats": [
    "0x1.e10e4643584c6p-2",
    "0x1.d6aa78fd4c52dp-2",
    "0x1.f60b2bb8d9f1fp-6",
    "0x1.ee2a1d3864ec5p-1"
   ]
  },
  "B": {
   "shape": [
    2,
    2
   ],
   "floats": [
    "0x1.30578a81e3136p-2",
    "0x1.e6f27736381f2p-6",
    "0x1.e4db1ceb85be2p-8",
    "0x1.83e27d8937cb5p-11"
   ]
  },
  "C": {
   "shape": [
    1,
    2
   ],
   "floats": [
    "0x1.0000000000000p+0",
    "0x0.0p+0"
   ]
  },
  "D": {
   "shape": [
    1,
    2
   ],
   "floats": [
    "0x0.0p+0",
    "0x0.0p+0"
   ]
  },
  "dt": {
   "float": "0x1.0000000000000p-2"
  },
  "states": [
   "air",
   "walls"
  ],
  "inputs": [
   "heat",
   "people"
  ],
  "outputs": [
   "T"
  ],
  "name": "room",
  "fingerprint": "f6b14d2507cc507a72135f4ace9c4699b867975567337c766ad827e428bc15b1"
 },
 "horizon": {
  "float": "inf"
 },
 "family": "gaussian",
 "parts": [
  {
   "kind": "filtered",
   "shaping": {
    "kind": "linearsystem",
    "A": {
     "shape": [
      11,
      11
     ],
     "floats": [
      "0x1.85b80708487cap-1",
      "-0x1.e6eb96cf5e7dbp-3",
      "0x1.a1cc12ab746aap-4",
      "-0x1.e76ee5dde2bbdp-5",
      "0x1.d6daae972fa22p-5",
      "-0x1.3f45904707345p-5",
      "0x1.42fe52fc2acb1p-5",
      "-0x1.adc114a27ab54p-6",
      "0x1.8d135480f3deap-6",
      "-0x1.b74a985e394a2p-7",
      "0x1.0d747a40c1336p-7",
      "-0x1.e6eb96cf5e7d7p-3",
      "0x1.706cec1a1dd69p-1",
      "0x1.49f66c966e046p-3",
      "-0x1.e80610a0d83dap-4",
      "0x1.9822e83903149p-4",
      "-0x1.30abf716021aep-4",
      "0x1.1e8860c24805ep-4",
      "-0x1.96e1e213ed9fcp-5",
      "0x1.63ce6ded8756ep-5",
      "-0x1.9f170048edffbp-6",
      "0x1.e4f52d535c1c2p-7",
      "0x1.a1cc12ab7468dp-4",
      "0x1.49f66c966e046p-3",
      "0x1.9a5cb0789b802p-1",
      "0x1.61a9c8f046f06p-2",
      "-0x1.f968c655ec0e7p-4",
      "0x1.23e3dc20b7a1fp-3",
      "-0x1.817215a965d09p-4",
      "0x1.6c92228ca1726p-4",
      "-0x1.efbd2c41842ebp-5",
      "0x1.6c558eef151adp-5",
      "-0x1.56e42465df0b1p-6",
      "0x1.e76ee5dde2b62p-5",
      "0x1.e80610a0d83c9p-4",
      "-0x1.61a9c8f046efep-2",
      "0x1.7b2cfb44e6a39p-1",
      "0x1.7040e0d72707ap-2",
      "-0x1.bb84d0abb880dp-5",
      "0x1.215a6dcff624fp-3",
      "-0x1.2162e008fcc6bp-5",
      "0x1.23fb974af127dp-4",
      "-0x1.1ef6b98331c72p-6",
      "0x1.6dd4a218e8bd0p-6",
      "0x1.d6daae972fa37p-5",
      "0x1.9822e8390316ep-4",
      "-0x1.f968c655ec159p-4",
      "-0x1.7040e0d72708cp-2",
      "0x1.8795b06b8590ap-2",
      "0x1.5a14334412172p-1",
      "-0x1.c9c618c35d94bp-4",
      "0x1.c402c5f0d42e2p-3",
      "-0x1.2e69953ae16eap-4",
      "0x1.835a34170f89dp-4",
      "-0x1.a7962c1ce1e90p-6",
      "0x1.3f45904707344p-5",
      "0x1.30abf716021e3p-4",
      "-0x1.23e3dc20b7a58p-3",
      "-0x1.bb84d0abb88f2p-5",
      "-0x1.5a14334412187p-1",
      "0x1.be64655c58e8dp-3",
      "0x1.1476b9865e136p-1",
      "-0x1.3bf0f6184ba5fp-6",
      "0x1.37b2338303900p-3",
      "-0x1.1bd9c4b5a5757p-7",
      "0x1.4e3ec5e4eec86p-5",
      "0x1.42fe52fc2ac16p-5",
      "0x1.1e8860c248017p-4",
      "-0x1.817215a965c73p-4",
      "-0x1.215a6dcff6249p-3",
      "-0x1.c9c618c35d883p-4",
      "-0x1.1476b9865e14cp-1",
      "-0x1.74543c6be8571p-3",
      "0x1.5bb3b773f19ebp-1",
      "-0x1.f755e6e924764p-5",
      "0x1.4a983a4fb22cdp-3",
      "-0x1.62a8f9447371cp-6",
      "0x1.adc114a27acf1p-6",
      "0x1.96e1e213edb2cp-5",
      "-0x1.6c92228ca1799p-4",
      "-0x1.2162e008fccadp-5",
      "-0x1.c402c5f0d435ep-3",
      "-0x1.3bf0f6184c441p-6",
      "-0x1.5bb3b773f19e5p-1",
      "-0x1.7f44bacd46b0fp-2",
      "0x1.f1cb7501a8556p-2",
      "-0x1.dd4d48cc05f60p-9",
      "0x1.485827cc322f9p-4",
      "0x1.8d135480f3fb2p-6",
      "0x1.63ce6ded876efp-5",
      "-0x1.efbd2c418457ep-5",
      "-0x1.23fb974af1295p-4",
      "-0x1.2e69953ae198ep-4",
      "-0x1.37b233830391ap-3",
      "-0x1.f755e6e9240d9p-5",
      "-0x1.f1cb7501a85e2p-2",
      "-0x1.5b74edcbd0ff8p-1",
      "0x1.bf35ef5949daap-2",
      "-0x1.dfc1b3c16e163p-7",
      "0x1.b74a985e3940ep-7",
      "0x1.9f170048edf7bp-6",
      "-0x1.6c558eef1516dp-5",
      "-0x1.1ef6b98331b77p-6",
      "-0x1.835a34170f8e7p-4",
      "-0x1.1bd9c4b5a511ap-7",
      "-0x1.4a983a4fb22c5p-3",
      "-0x1.dd4d48cc0300dp-9",
      "-0x1.bf35ef5949d79p-2",
      "-0x1.a8ce86be1f61dp-1",
      "0x1.d94b88074f48cp-3",
      "0x1.0d747a40c1381p-7",
      "0x1.e4f52d535c315p-7",
      "-0x1.56e42465df2afp-6",
      "-0x1.6dd4a218e8c10p-6",
      "-0x1.a7962c1ce25f4p-6",
      "-0x1.4e3ec5e4eed99p-5",
      "-0x1.62a8f9447331cp-6",
      "-0x1.485827cc321c4p-4",
      "-0x1.dfc1b3c16e368p-7",
      "-0x1.d94b88074f414p-3",
      "-0x1.ecf2caff3b78bp-1"
     ]
    },
    "B": {
     "shape": [
      11,
      1
     ],
     "floats": [
      "0x1.d1639594d1aa8p-3",
      "0x1.381af4fd5541bp-3",
      "-0x1.3e5c2b5f59db3p-5",
      "-0x1.d734d000c8057p-7",
      "-0x1.2b837c8a7fad6p-6",
      "-0x1.50b8d6badded9p-7",
      "-0x1.88a272e584683p-7",
      "-0x1.cb1b69a6aced7p-8",
      "-0x1.d90d59349eb14p-8",
      "-0x1.d6900f6ca2873p-9",
      "-0x1.3e410ac6d68aep-9"
     ]
    },
    "C": {
     "shape": [
      1,
      11
     ],
     "floats": [
      "0x1.60fcde5f8284dp-2",
      "0x1.b24457c29fe12p-4",
      "-0x1.1962714cae367p-7",
      "-0x1.bf8daa38307afp-9",
      "-0x1.04bb034620c12p-10",
      "-0x1.774ef7e518479p-10",
      "-0x1.e23ec8bc843d2p-14",
      "-0x1.cdba5c12669adp-11",
      "0x1.46551aa61d712p-14",
      "-0x1.cf0ee0a6192adp-12",
      "0x1.8f345a87d7f29p-15"
     ]
    },
    "D": {
     "shape": [
      1,
      1
     ],
     "floats": [
      "0x1.8df0d03dc6cbfp-3"
     ]
    }
   },
   "response": null,
   "starts_stationary": true
  }
 ],
 "request": {
  "kind": "request",
  "horizon": {
   "float": "inf"
  },
  "budget": {
   "kind": "privacybudget",
   "epsilon": {
    "float": "0x1.0000000000000p+0"
   },
   "delta": {
    "float": "0x1.47ae147ae147bp-7"
   },
   "gdp": null
  },
  "adjacency": {
   "kind": "disturbanceadjacency",
   "radius": {
    "people": {
     "float": "0x1.0000000000000p+0"
    }
   },
   "inputs": null,
   "times": null,
   "norm": "single",
   "duration": 12,
   "profiles": null,
   "events": 1,
   "separation": 0,
   "window": null,
   "shape": "any",
   "signals": [
    "people"
   ]
  },
  "family": "gaussian",
  "releases": 1,
  "floor": null,
  "models": [],
  "region": null,
  "resolution": null,
  "factor": null,
  "order": null,
  "gap": {
   "float": "0x1.47ae147ae147bp-7"
  },
  "scale": false
 },
 "guarantee": {
  "loss": {
   "kind": "privacyloss",
   "rows": [
    {
     "kind": "product",
     "shifts": [],
     "square": "1437890288810015884596912528889/5070602400912917605986812821504",
     "boxes": []
    }
   ],
   "moves": [
    []
   ],
   "kinds": [
    "Gaussian"
   ],
   "attained": true,
   "aligned": true,
   "proportional": true
  },
  "releases": 1,
  "quoted_delta": {
   "float": "0x1.47ae147ae147bp-7"
  }
 },
 "digest": "22fdf717c00fc56534c7b820114ebf5b3e3200affe9c44a73df45f5eb5dd0f19"
};
