// A driver for the conformance kit of Toolfold: go build -o driver . && toolfold conform --driver -- ./driver
// Engine stands for your implementation; replace it, and keep the rest.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
)

type Setup struct {
	Groups []struct {
		Path string `json:"path"`
	} `json:"groups"`
	Exclusions [][]string `json:"exclusions"`
}

type Request struct {
	Verb      string `json:"verb"`
	Arguments struct {
		Group string `json:"group"`
		Setup Setup  `json:"setup"`
	} `json:"arguments"`
}

// Refusal is an error of SPEC 23, with what it names.
type Refusal struct {
	Name   string
	Detail map[string]string
}

func (refusal *Refusal) Error() string { return refusal.Name }

// Engine is the rules of groups, for one session.
type Engine struct {
	setup  Setup
	active []string
}

// isWithin returns whether a group is another or lies below it.
func isWithin(path, group string) bool { return path == group || strings.HasPrefix(path, group+".") }

// compare is canonical order: name by name, so that a.b comes before a-b.
func compare(one, other string) int {
	return slices.Compare(strings.Split(one, "."), strings.Split(other, "."))
}

// Activate activates a group and returns whether that changed anything.
func (engine *Engine) Activate(group string) (bool, error) {
	if err := engine.require(group); err != nil {
		return false, err
	}
	for place, letter := range group { // the ancestors, from the top down
		if letter == '.' && !slices.Contains(engine.active, group[:place]) {
			return false, &Refusal{"ParentInactive", map[string]string{"missing": group[:place]}}
		}
	}
	if slices.Contains(engine.active, group) {
		return false, nil
	}
	for _, members := range engine.setup.Exclusions {
		if slices.Contains(members, group) {
			for _, rival := range members {
				engine.close(rival)
			}
		}
	}
	engine.active = append(engine.active, group)
	slices.SortFunc(engine.active, compare)
	return true, nil
}

// Deactivate deactivates a group and all below it, and returns whether that changed anything.
func (engine *Engine) Deactivate(group string) (bool, error) {
	changed := slices.Contains(engine.active, group)
	engine.close(group)
	return changed, engine.require(group)
}

func (engine *Engine) require(group string) error {
	for _, known := range engine.setup.Groups {
		if known.Path == group {
			return nil
		}
	}
	return &Refusal{"GroupNotFound", map[string]string{"group": group}}
}

func (engine *Engine) close(group string) {
	engine.active = slices.DeleteFunc(engine.active, func(path string) bool { return isWithin(path, group) })
}

// respond returns the response to a request.
func respond(engine *Engine, request Request) map[string]any {
	var changed bool
	var err error
	switch request.Verb {
	case "hello":
		return map[string]any{"protocol": 1, "capabilities": []string{"setups", "errors"}}
	case "configure":
		*engine = Engine{request.Arguments.Setup, []string{}}
		return map[string]any{}
	case "activate":
		changed, err = engine.Activate(request.Arguments.Group)
	case "deactivate":
		changed, err = engine.Deactivate(request.Arguments.Group)
	case "snapshot":
		return map[string]any{"active": engine.active}
	default:
		return map[string]any{"error": "NotSupported"}
	}
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return map[string]any{"error": refusal.Name, "detail": refusal.Detail, "active": engine.active}
	}
	return map[string]any{"changed": changed, "active": engine.active}
}

func main() {
	engine := &Engine{active: []string{}}
	requests, responses := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var request Request
		if requests.Decode(&request) != nil {
			return
		}
		if responses.Encode(respond(engine, request)) != nil {
			return
		}
	}
}
