"""An address contains all that a view shows: random walks over the controls of each page, each compared with the page
drawn from its address alone. ``SPILLSCAN_WALKS``: number of walks per page.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from tests.conftest import sized
from tests.reports.browser.conftest import DRAWN, Open, Site, Tab

WALKS = int(os.environ.get("SPILLSCAN_WALKS", "1"))
STEPS, ACTS = sized((1, 6), (2, 4))
"""How often a walk looks at what is shown, and what it does in between."""
SETTLED_MS = 200
STARTS = (
    ("scan", "#/overview"),
    ("sorted", "#/table"),
    ("check", "#/overview"),
    ("diff", "#/changes"),
    ("flags", "#/changes"),
    ("history", "#/history"),
    ("sweep", "#/sweep"),
    ("code", "#/kernel"),
)

SHOWN = """() => {
  const found = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return void found.push(node.data);
    if (node.hidden || node.ariaLive) return;
    const changing = /^(id|value|checked|selected|aria-activedescendant|data-returned)$/;
    const held = [...node.attributes].filter(({ name }) => !changing.test(name));
    const words = held.map(({ name, value }) => `${name}=${value.replace(/ ?\\bactive\\b/, "")}`);
    found.push([node.localName, ...words.sort(), node.value ?? "", node.checked ?? ""].join(" "));
    const closed = node.localName === "details" && !node.open;
    [...node.childNodes].filter((each) => !closed || each.localName === "summary").forEach(walk);
  };
  for (const each of document.querySelectorAll("main .table")) each.scrollTop = 0;
  return new Promise((done) => setTimeout(() => requestAnimationFrame(() => {
    walk(document.querySelector("main .view"));
    done([document.title, ...found]);
  }), 50));
}"""
"""All that stands in a page, texts and attributes, but what its lists' places and the keyboard's have changed."""

ACT = """(dice) => {
  const pick = (list) => list[Math.floor(dice.shift() * list.length)];
  const seen = (each) => each.checkVisibility() && !each.disabled && !/^Copy/.test(each.textContent);
  const controls = "main :is(summary, button, select, input, a.opens, [role=row] .cell, .table)";
  const all = [document.body, ...document.querySelectorAll(controls)].filter(seen);
  const kind = (each) => each.localName + (each.type ?? "") + (each.closest("form") ? "" : each.className);
  const node = pick(pick([...Map.groupBy(all, kind).values()]));
  const event = (name) => node.dispatchEvent(new Event(name, { bubbles: true }));
  const words = ["", "gemm", "e", "*a*", "16"], type = node.type ?? "";
  if (node.localName === "select") { node.value = pick([...node.options]).value; event("change"); }
  else if (type === "search") { node.value = pick(words); event("input"); }
  else if (/range|number/.test(type)) { node.value = Math.round(dice.shift() * node.max); event("input"); }
  else if (node.matches(".table")) for (let at = 0; at < 5; at += 1) {
    const key = pick(["ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft", "Enter", "End"]);
    node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  } else node.dispatchEvent(new MouseEvent("click", { bubbles: true, cancelable: true }));
  return `${node.localName} ${type} ${node.id} ${node.textContent.slice(0, 60)}`;
}"""
"""Does something with one of the controls, each kind of which is as likely; says what."""


def shown(tab: Tab) -> list[Any]:
    tab.page.evaluate(DRAWN)
    found: list[Any] = tab.page.evaluate(SHOWN)
    return found


@pytest.mark.parametrize(("name", "start"), sized(STARTS[2:4], STARTS))
def test_an_address_restores_the_view(browse: Open, site: Site, name: str, start: str) -> None:
    tab, other = browse(site[name], start), browse(site[name], start)
    if start == "#/kernel":
        tab.go("#/table")
        start = tab.page.locator(".cell-name a").first.get_attribute("href") or ""
    for seed in range(WALKS):
        dice = random.Random(f"{name} {seed}")
        tab.go(start)
        acts: list[str] = []
        for _ in range(STEPS):
            acts += [tab.page.evaluate(ACT, [dice.random() for _ in range(12)]) for _ in range(ACTS)]
            tab.page.wait_for_timeout(SETTLED_MS)
            now, address = shown(tab), tab.page.url
            other.page.goto("about:blank")
            other.page.goto(address)
            other.page.wait_for_selector("main .view", state="attached")
            assert shown(other) == now, (seed, acts, address)
