//! Breadth-first exploration of every state: shortest counterexamples, and whether every state can still be settled.
//!
//! Knows nothing of relays; a [`Model`] says what there is.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What must hold in every state: its name, and whether it does.
pub type Property<State> = (&'static str, fn(&State) -> bool);

/// What is explored.
pub trait Model {
    type State: Clone + Eq + Hash + 'static;
    type Action: Copy + std::fmt::Debug;

    const PROPERTIES: &'static [Property<Self::State>];
    /// What must stay reachable from every state by the system's own moves.
    const SETTLES: &'static str;

    fn start(&self) -> Self::State;
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// None: the action changes nothing that matters.
    fn next(&self, state: &Self::State, action: Self::Action) -> Option<Self::State>;
    fn is_settled(&self, state: &Self::State) -> bool;
    /// Whether the system makes this move by itself, without a channel's or the world's help.
    fn is_own(&self, action: Self::Action) -> bool;
    fn tell(&self, state: &Self::State) -> String;
}

/// A property that does not hold, and the shortest way there.
#[derive(Clone, Debug)]
pub struct Counterexample {
    pub property: &'static str,
    /// Action, and the state that it led to.
    pub steps: Vec<(String, String)>,
}

/// What an exploration found.
#[derive(Debug)]
pub struct Found {
    pub states: usize,
    pub moves: usize,
    pub counterexamples: Vec<Counterexample>,
}

impl Found {
    /// The names of the properties that failed: `I1,I3`, or `PASS`.
    pub fn verdict(&self) -> String {
        if self.counterexamples.is_empty() {
            return "PASS".to_owned();
        }
        let names = self.counterexamples.iter();
        names.map(|found| &found.property[..2]).collect::<Vec<_>>().join(",")
    }
}

struct Graph<M: Model> {
    states: Vec<M::State>,
    /// For each state, from where it was first reached; for the first one itself.
    from: Vec<Option<(u32, M::Action)>>,
    /// Own moves, as (to, from).
    own: Vec<(u32, u32)>,
    moves: usize,
}

/// Explores everything; nothing behind a violation.
pub fn explore<M: Model>(model: &M) -> Found {
    let (graph, broken) = walk(model, |_| true, |_| false);
    let mut counterexamples = Vec::new();
    for (property, _) in M::PROPERTIES {
        if broken.contains_key(property) {
            counterexamples.push(shortest(model, property));
        }
    }
    if let Some(stuck) = stuck(model, &graph) {
        let steps = way(model, &graph, stuck);
        counterexamples.push(Counterexample { property: M::SETTLES, steps });
    }
    Found { states: graph.states.len(), moves: graph.moves, counterexamples }
}

/// The shortest way to break the property whose name begins so, if there is one.
pub fn breaks<M: Model>(model: &M, name: &str) -> Option<Counterexample> {
    if let Some((property, _)) = M::PROPERTIES.iter().find(|(full, _)| full.starts_with(name)) {
        return Some(shortest(model, property)).filter(|example| !example.steps.is_empty());
    }
    let (graph, _) = walk(model, |_| true, |_| false);
    let steps = way(model, &graph, stuck(model, &graph)?);
    Some(Counterexample { property: M::SETTLES, steps })
}

/// The shortest way to break one property: behind violations of others there may be a shorter one than the first walk saw.
fn shortest<M: Model>(model: &M, property: &'static str) -> Counterexample {
    let (graph, broken) = walk(model, |name| name == property, |broken| !broken.is_empty());
    let steps = broken.get(property).map(|at| way(model, &graph, *at)).unwrap_or_default();
    Counterexample { property, steps }
}

type Broken = HashMap<&'static str, u32>;

fn walk<M: Model>(
    model: &M,
    looks_at: impl Fn(&str) -> bool,
    ends: impl Fn(&Broken) -> bool,
) -> (Graph<M>, Broken) {
    let mut graph: Graph<M> =
        Graph { states: vec![model.start()], from: vec![None], own: vec![], moves: 0 };
    let mut numbers = HashMap::from([(model.start(), 0_u32)]);
    let mut queue = VecDeque::from([0_u32]);
    let mut broken = Broken::new();
    while let Some(at) = queue.pop_front() {
        let state = graph.states[at as usize].clone();
        let fails = M::PROPERTIES.iter().filter(|(name, holds)| looks_at(name) && !holds(&state));
        let before = broken.len();
        let mut any = false;
        for (name, _) in fails {
            any = true;
            broken.entry(name).or_insert(at);
        }
        if broken.len() > before && ends(&broken) {
            break;
        }
        if any {
            continue;
        }
        for action in model.actions(&state) {
            let Some(next) = model.next(&state, action) else { continue };
            graph.moves += 1;
            let known =
                u32::try_from(graph.states.len()).expect("fewer than four thousand million");
            let to = *numbers.entry(next).or_insert_with_key(|next| {
                graph.states.push(next.clone());
                graph.from.push(Some((at, action)));
                queue.push_back(known);
                known
            });
            if model.is_own(action) && to != at {
                graph.own.push((to, at));
            }
        }
    }
    (graph, broken)
}

fn way<M: Model>(model: &M, graph: &Graph<M>, mut at: u32) -> Vec<(String, String)> {
    let mut steps = Vec::new();
    while let Some((from, action)) = graph.from[at as usize] {
        steps.push((format!("{action:?}"), model.tell(&graph.states[at as usize])));
        at = from;
    }
    steps.reverse();
    steps
}

/// The first state from which own moves lead to nothing settled: everything that can be settled is found backwards.
fn stuck<M: Model>(model: &M, graph: &Graph<M>) -> Option<u32> {
    let mut ends = vec![0_usize; graph.states.len() + 1];
    for (to, _) in &graph.own {
        ends[*to as usize + 1] += 1;
    }
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut place = ends.clone();
    let mut froms = vec![0_u32; graph.own.len()];
    for (to, from) in &graph.own {
        froms[place[*to as usize]] = *from;
        place[*to as usize] += 1;
    }
    let violates = |state| M::PROPERTIES.iter().any(|(_, holds)| !holds(state));
    let settles = |state| model.is_settled(state) || violates(state);
    let mut good: Vec<bool> = graph.states.iter().map(settles).collect();
    let mut open: Vec<usize> = (0..good.len()).filter(|at| good[*at]).collect();
    while let Some(at) = open.pop() {
        for from in &froms[ends[at]..ends[at + 1]] {
            if !std::mem::replace(&mut good[*from as usize], true) {
                open.push(*from as usize);
            }
        }
    }
    good.iter().position(|good| !good).map(|at| u32::try_from(at).expect("it is one of them"))
}
