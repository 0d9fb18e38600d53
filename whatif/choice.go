package whatif

import (
	"encoding/json"

	"remshell/job"
)

// A choiceFile is a choice as plans, reports and the entries of jobs have it.
type choiceFile struct {
	Class      *string  `json:"class"`
	Regions    []string `json:"regions"`
	Set        *setFile `json:"node_set"`
	Contiguous *string  `json:"contiguous"`
	Shape      *int     `json:"shape"`
	Parts      []part   `json:"parts"`
}

type setFile struct {
	Request    string       `json:"request"`
	From       string       `json:"from"`
	Priority   string       `json:"priority"`
	Considered []considered `json:"considered"`
	Chosen     []string     `json:"chosen"`
	Left       bool         `json:"left"`
}

type considered struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	Room  int    `json:"room"`
	Fits  bool   `json:"fits"`
}

// A part is nodes that were chosen together.
type part struct {
	Set   *string  `json:"set"`
	Nodes []string `json:"nodes"`
	Ranks int      `json:"ranks"`
}

// choiceJSON is a choice as one line of JSON.
func choiceJSON(c *job.Choice) string {
	f := choiceFile{Class: unlessZero(c.Class), Regions: c.Regions, Contiguous: unlessZero(string(c.Contiguous)), Shape: unlessZero(c.Shape), Parts: []part{}}
	if s := c.Set; s != nil {
		f.Set = &setFile{Request: s.Request, From: s.From, Priority: s.Priority, Considered: []considered{},
			Chosen: append([]string{}, s.Chosen...), Left: s.Left}
		for _, of := range s.Sets {
			f.Set.Considered = append(f.Set.Considered, considered(of))
		}
	}
	for _, p := range c.Parts {
		f.Parts = append(f.Parts, part{unlessZero(p.Set), p.Nodes, p.Ranks})
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts and numbers
	}
	return string(text)
}

// unlessZero is a value for JSON, which has null for none.
func unlessZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
