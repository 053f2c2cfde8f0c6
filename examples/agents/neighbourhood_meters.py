"""Meters of a neighbourhood agree on their mean load, each in a process of its own

Twelve households want to know the mean of their loads, so the feeder is not
overloaded, and nobody is to learn when one of them is at home. Every meter is a process that talks
to its neighbours by UDP on this computer. Datagrams are lost, held back and repeated,
and meters are killed at any moment and started again. A meter keeps what it has
published in a file, so it never publishes a second first message.

In the second run two meters are dead from the start. The noise that they share with
their neighbours would stay in the sum; after a deadline their neighbours take it out.

Run it as ``python neighbourhood_meters.py``. It prints what an eavesdropper of all
datagrams has seen.
"""

import json
import multiprocessing
import os
import random
import signal
import socket
import sqlite3
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import networkx as nx
import numpy as np

import privcontrol as pc
from privcontrol.consensus import pair_keys, private_consensus

HOUSES = 12
ROUNDS = 120
KILLS = 100
LOST = 0.1  # share of the datagrams
HELD = 0.1
HOST = "127.0.0.1"


def neighbourhood():
    """Twelve meters, each in reach of four others, and their loads in kW."""
    graph = nx.circulant_graph(HOUSES, [1, 3])
    loads = np.random.default_rng(0).gamma(2.0, 1.0, HOUSES).round(3)
    return graph, dict(enumerate(loads.tolist()))


class Post:
    """A socket that loses and holds back what it sends, though not to the listener."""

    def __init__(self, port):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((HOST, port))
        self.socket.settimeout(0.004)
        self.held = []

    def send(self, letter, ports, listener):
        self.socket.sendto(letter, (HOST, listener))
        for port in ports:
            chance = random.random()
            if chance < LOST:
                continue
            if chance < LOST + HELD:
                self.held.append((letter, port))
            else:
                self.socket.sendto(letter, (HOST, port))
        if len(self.held) > 20:
            late, self.held = self.held, []
            for old, port in late:
                self.socket.sendto(old, (HOST, port))

    def received(self):
        """Letters that have come, until there are no more or some time has passed."""
        end = time.monotonic() + 0.02
        while time.monotonic() < end:
            try:
                yield json.loads(self.socket.recv(4096))
            except TimeoutError:
                return


def meter(group, node, load, keys, ports, folder, missing):
    """What one meter runs: publish, listen, and move towards its neighbours."""
    agent = group.agent(node, load, keys, path=Path(folder) / f"meter_{node}")
    post = Post(ports[node])
    neighbours = [k for k in agent.neighbours if k not in missing]
    addresses = [ports[k] for k in neighbours]
    heard = defaultdict(dict)
    agent.message()
    if missing and agent.steps == 0:
        time.sleep(0.2)  # the deadline for first messages
        agent.repair(missing)
    while True:
        now = agent.steps
        for step in range(max(0, now - 1), now + 1):  # a neighbour may be a step behind
            letter = {"from": node, "step": step, "y": agent.published[step].hex()}
            post.send(json.dumps(letter).encode(), addresses, ports["listener"])
        for letter in post.received():
            heard[letter["step"]][letter["from"]] = float.fromhex(letter["y"])
        if now < ROUNDS and len(heard[now]) == len(neighbours):
            agent.update(heard.pop(now))


def free_ports(count):
    """Ports of this computer that nobody uses."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for one in sockets:
        one.bind((HOST, 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def run(group, loads, folder, *, kills=0, missing=(), patience=120.0):
    """All messages that an eavesdropper hears, by meter and step, and the meters killed."""
    keys = pair_keys(group.network)
    names = [*group.nodes, "listener"]
    ports = dict(zip(names, free_ports(len(names))))
    listener = Post(ports["listener"])
    fork = multiprocessing.get_context("fork")

    def started(node):
        task = (group, node, loads[node], keys[node], ports, folder, missing)
        process = fork.Process(target=meter, args=task, daemon=True)
        process.start()
        return process

    alive = [node for node in group.nodes if node not in missing]
    processes = {node: started(node) for node in alive}
    heard = defaultdict(set)
    killed = 0
    deadline = time.monotonic() + patience
    try:
        while any((node, ROUNDS) not in heard for node in alive) or killed < kills:
            if time.monotonic() > deadline:
                raise TimeoutError("the meters did not end")
            for letter in listener.received():
                heard[letter["from"], letter["step"]].add(float.fromhex(letter["y"]))
                if killed < kills and random.random() < 0.3:
                    node = random.choice(alive)
                    os.kill(processes[node].pid, signal.SIGKILL)
                    processes[node].join()
                    processes[node] = started(node)
                    killed += 1
    finally:
        for process in processes.values():
            process.kill()
            process.join()
        listener.socket.close()
    return dict(heard), killed


def first_message(folder, node):
    """What a meter published first, by its file."""
    with closing(sqlite3.connect(Path(folder) / f"meter_{node}")) as file:
        (text,) = file.execute("SELECT text FROM entries WHERE number = 0").fetchone()
    return float.fromhex(json.loads(text)["message"]["floats"][0])


def report(title, group, loads, heard, nodes):
    """Whether each message was one, and what the meters agree on."""
    contradictions = sum(len(messages) > 1 for messages in heard.values())
    last = np.array([max(heard[node, ROUNDS]) for node in nodes])
    mean = np.mean([loads[node] for node in nodes])
    own = group.scales[0] / np.sqrt(len(nodes))
    print(f"{title}: {len(heard)} messages, {contradictions} of them with two values")
    print(f"  the meters agree on {last.mean():.3f} kW, apart by {np.ptp(last):.0e} kW")
    print(f"  their mean load is {mean:.3f} kW; standard error promised {own:.3f} kW")


def main():
    graph, loads = neighbourhood()
    budget = pc.PrivacyBudget(epsilon=1.0, delta=1e-3)
    options = {"weights": "metropolis", "pairwise_std": "auto", "coalition": 2}
    group = private_consensus(graph, budget, radius=1.0, **options)
    alone = private_consensus(graph, budget, radius=1.0, weights="metropolis")
    print(group.guarantee)
    print(
        f"noise of its own: {group.scales[0]:.2f} kW, {alone.scales[0]:.2f} kW if none "
        f"is shared; shared with each neighbour: {group.pairwise_std:.0f} kW"
    )
    with tempfile.TemporaryDirectory() as folder:
        heard, killed = run(group, loads, folder, kills=KILLS)
        y = np.array([first_message(folder, node) for node in graph])
    report(f"{killed} kills", group, loads, heard, list(graph))
    for _ in range(ROUNDS):
        y = group.network.iteration @ y
    last = np.array([max(heard[node, ROUNDS]) for node in graph])
    print(
        f"  the simulation of the same first messages differs by {np.abs(last - y).max():.0e}"
    )

    missing = (2, 7)
    stay = [node for node in graph if node not in missing]
    with tempfile.TemporaryDirectory() as folder:
        heard, _ = run(group, loads, folder, missing=missing)
        before = np.mean([first_message(folder, node) for node in stay])
    report("two dead meters", group, loads, heard, stay)
    print(f"  without the repair they would agree on {before:.1f} kW")
    left = group.guarantee_for(coalition=missing)
    print(f"  for those who stay, nobody else colluding: {left.gdp:.3f}-GDP")


if __name__ == "__main__":
    main()
