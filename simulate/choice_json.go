package simulate

import (
	"encoding/json"

	"remshell/job"
)

// A choiceRecord is the JSON form of the node choice of a plan. It is part of plans, reports and job entries.
type choiceRecord struct {
	Class      *string       `json:"class"`
	Regions    []string      `json:"regions"`
	Set        *setRecord    `json:"node_set"`
	Contiguous *string       `json:"contiguous"`
	Shape      *int          `json:"shape"`
	Parts      []chosenGroup `json:"groups"`
}

type setRecord struct {
	Request    string          `json:"request"`
	From       string          `json:"from"`
	Priority   string          `json:"priority"`
	Considered []consideredSet `json:"considered"`
	Chosen     []string        `json:"chosen"`
	WithoutSet bool            `json:"without_set"`
}

type consideredSet struct {
	Name     string `json:"name"`
	Nodes    int    `json:"nodes"`
	Capacity int    `json:"capacity"`
	Fits     bool   `json:"fits"`
}

// A chosenGroup is the JSON form of a group of nodes that were chosen together.
type chosenGroup struct {
	Set   *string  `json:"set"`
	Nodes []string `json:"nodes"`
	Ranks int      `json:"ranks"`
}

// choiceJSON returns a node choice as JSON on one line.
func choiceJSON(c *job.NodeChoice) string {
	f := choiceRecord{Class: nullIfZero(c.Class), Regions: c.Regions, Contiguous: nullIfZero(string(c.Contiguous)), Shape: nullIfZero(c.ExactPerNode), Parts: []chosenGroup{}}
	if s := c.NodeSet; s != nil {
		f.Set = &setRecord{Request: s.Request, From: s.From, Priority: s.Priority, Considered: []consideredSet{},
			Chosen: append([]string{}, s.Chosen...), WithoutSet: s.WithoutSet}
		for _, of := range s.Sets {
			f.Set.Considered = append(f.Set.Considered, consideredSet(of))
		}
	}
	for _, p := range c.Groups {
		f.Parts = append(f.Parts, chosenGroup{nullIfZero(p.Set), p.Nodes, p.Ranks})
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts and numbers always have a JSON form
	}
	return string(text)
}

// nullIfZero returns nil, which JSON writes as null, if value is zero. Otherwise it returns a pointer to value.
func nullIfZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
