"""Words that users search for, by the page that answers them.

They are entries of the index, which the search of the site ranks above titles and text.
"""

import uuid

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

WORDS = {
    "beyond_loops": "federated, machine learning, tables, census",
    "benchmarks": "speed, comparison of packages",
    "changelog": "release notes, versions, breaking changes",
    "cheat_sheet": "quick reference, summary, cheatsheet",
    "coming_from": "MATLAB, Simulink, OpenDP, python-control",
    "concepts": "free response, manifold, structured noise, correlated noise",
    "contributing": "development, pull request",
    "data_protection": "GDPR, DSGVO, NIST, EDPB, anonymisation, pseudonymisation, "
    "consent, DPIA, compliance, legal, data protection officer",
    "deployment": "gateway, ledger, restart, backup, production",
    "deployment_device": "Raspberry Pi, systemd, PLC, embedded",
    "deployment_fmu": "FMU, co-simulation, Modelica",
    "deployment_protocols": "Modbus, OPC UA, SCADA",
    "design_files": "JSON, file format, schema",
    "do_mpc": "model predictive control, constraints, CasADi",
    "faq": "noise too large, nonlinear plant, time-varying, Kalman filter, prior, "
    "system identification, recorded data",
    "guarantees": "adversary, composition, proof, theorem, GDP, Renyi",
    "how_long": "slow, runtime, memory, performance",
    "installing": "license, licence, install, pip, conda, Docker, Windows, macOS, slycot",
    "learn": "tutorial, examples",
    "literature_benchmark": "related work, baselines",
    "notation": "symbols",
    "other_frames": "Pufferfish, Blowfish, local differential privacy, metric privacy",
    "papers_and_errata": "reproducibility, errata",
    "recipes": "smart meter, MQTT, HVAC, thermostat, CO2, insulin, glucose, AGC, "
    "platoon, PID, MPC, dead time, delay, identification",
    "references": "bibliography",
    "registry_proposals": "registry",
    "secret_setpoint": "setpoint, set point, local controller",
    "sharp_edges": "quantization, quantisation, pitfalls, attack, seed, floating point, "
    "side channel, saturation, model mismatch, second day, repetition",
    "standards": "OpenSSF, JOSS, certification",
    "start": "getting started, quickstart, first steps",
    "tasks": "which function",
    "tutorials/cloud_control": "cloud, LQG, LQR",
    "tutorials/consensus": "consensus, average, multi-agent, distributed",
    "tutorials/loop_that_never_stops": "infinite horizon, stationary",
    "tutorials/model_behind_a_mechanism": "neural network, inference, Lipschitz",
    "tutorials/nonlinear_plants": "Jacobian, linearisation, nonlinear",
    "units": "units, kelvin, sampling time",
    "what_may_leave": "publish, logs, share data",
    "what_to_expect": "how much noise, accuracy, utility",
    "which_epsilon": "epsilon, ROC curve, false alarm, detection, privacy budget",
    "which_secret": "adjacency, occupancy, neighbouring data",
}


class SearchWords(SphinxTransform):
    """Add the words of a page to the index, as its main entries."""

    default_priority = 400

    def apply(self):
        """Put the entries at the head of the page."""
        words = WORDS.get(self.env.docname)
        if not words:
            return
        anchor = f"index-{uuid.uuid5(uuid.NAMESPACE_URL, self.env.docname).hex[:8]}"
        entries = [
            ("single", word.strip(), anchor, "main", None) for word in words.split(",")
        ]
        target = nodes.target("", "", ids=[anchor])
        self.document.insert(0, [addnodes.index(entries=entries), target])


def setup(app):
    """Add the words to every page that has some."""
    app.add_transform(SearchWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
