//! A driver for the conformance kit of Toolfold: `cargo build && toolfold conform --driver -- target/debug/driver`
//! `Engine` stands for your implementation; replace it, and keep the rest.

use std::io::{self, BufRead, Write};

use serde_json::{json, Value};

/// The name of an error of SPEC 23, and what it names.
struct Refusal(&'static str, Value);

/// The rules of groups, for one session.
#[derive(Default)]
struct Engine {
    groups: Vec<String>,
    exclusions: Vec<Vec<String>>,
    active: Vec<String>,
}

/// Whether a group is another or lies below it.
fn is_within(path: &str, group: &str) -> bool {
    path == group
        || path
            .strip_prefix(group)
            .is_some_and(|rest| rest.starts_with('.'))
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(String::from)
        .collect()
}

impl Engine {
    fn new(setup: &Value) -> Self {
        let groups = setup["groups"].as_array().into_iter().flatten();
        let exclusions = setup["exclusions"].as_array().into_iter().flatten();
        Engine {
            groups: groups
                .filter_map(|group| group["path"].as_str())
                .map(String::from)
                .collect(),
            exclusions: exclusions.map(texts).collect(),
            active: Vec::new(),
        }
    }

    /// Activates a group and returns whether that changed anything.
    fn activate(&mut self, group: &str) -> Result<bool, Refusal> {
        self.require(group)?;
        // the ancestors, from the top down
        let mut ancestors = group.match_indices('.').map(|(place, _)| &group[..place]);
        if let Some(missing) = ancestors.find(|path| !self.is_active(path)) {
            return Err(Refusal("ParentInactive", json!({ "missing": missing })));
        }
        if self.is_active(group) {
            return Ok(false);
        }
        let sets = self
            .exclusions
            .iter()
            .filter(|members| members.iter().any(|path| path == group));
        let rivals: Vec<String> = sets.flatten().cloned().collect();
        rivals.iter().for_each(|rival| self.close(rival));
        self.active.push(group.to_string());
        // canonical order: name by name, so that a.b comes before a-b
        self.active
            .sort_by(|one, other| one.split('.').cmp(other.split('.')));
        Ok(true)
    }

    /// Deactivates a group and all below it, and returns whether that changed anything.
    fn deactivate(&mut self, group: &str) -> Result<bool, Refusal> {
        self.require(group)?;
        let changed = self.is_active(group);
        self.close(group);
        Ok(changed)
    }

    fn require(&self, group: &str) -> Result<(), Refusal> {
        let known = self.groups.iter().any(|path| path == group);
        known
            .then_some(())
            .ok_or_else(|| Refusal("GroupNotFound", json!({ "group": group })))
    }

    fn is_active(&self, group: &str) -> bool {
        self.active.iter().any(|path| path == group)
    }

    fn close(&mut self, group: &str) {
        self.active.retain(|path| !is_within(path, group));
    }
}

fn respond(engine: &mut Engine, request: &Value) -> Value {
    let arguments = &request["arguments"];
    let group = arguments["group"].as_str().unwrap_or_default();
    let changed = match request["verb"].as_str().unwrap_or_default() {
        "hello" => return json!({"protocol": 1, "capabilities": ["setups", "errors"]}),
        "configure" => {
            *engine = Engine::new(&arguments["setup"]);
            return json!({});
        }
        "activate" => engine.activate(group),
        "deactivate" => engine.deactivate(group),
        "snapshot" => return json!({ "active": engine.active }),
        _ => return json!({"error": "NotSupported"}),
    };
    match changed {
        Ok(changed) => json!({"changed": changed, "active": engine.active}),
        Err(Refusal(name, detail)) => {
            json!({"error": name, "detail": detail, "active": engine.active})
        }
    }
}

fn main() -> io::Result<()> {
    let mut engine = Engine::default();
    for line in io::stdin().lock().lines() {
        let response = respond(&mut engine, &serde_json::from_str(&line?)?);
        writeln!(io::stdout(), "{response}")?;
    }
    Ok(())
}
