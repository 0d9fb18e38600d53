package whatif

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/psi"
)

// This file reads what a state says of which nodes a job gets (which-hosts.md): the keys of the
// cluster file in lower case, with _ between words.

// rules are those of a cluster.
type rules struct {
	Set       *setRules      `json:"nodeset,omitempty"`
	Classes   []classRules   `json:"classes,omitempty"`
	Affinity  []affinityRule `json:"affinity,omitempty"`
	Regions   []regionRules  `json:"regions,omitempty"`
	Domain    []string       `json:"domain,omitempty"`
	NodeAlloc string         `json:"node_alloc,omitempty"`
}

// setRules are a default of node sets. Of a class, it may also be one text.
type setRules struct {
	Policy    *string `json:"policy,omitempty"`
	Attribute *string `json:"attribute,omitempty"`
	List      []word  `json:"list,omitempty"`
	Optional  *answer `json:"optional,omitempty"`
	Tolerance *answer `json:"tolerance,omitempty"`
	Priority  *answer `json:"priority,omitempty"`
	Plus      words   `json:"plus,omitempty"`
	Delay     *answer `json:"delay,omitempty"`
	MaxDelay  *word   `json:"max_delay,omitempty"`
	PerJob    *answer `json:"per_job,omitempty"`
}

type classRules struct {
	Name   string          `json:"name"`
	Users  []int           `json:"users,omitempty"`
	Groups []int           `json:"groups,omitempty"`
	Set    json.RawMessage `json:"nodeset,omitempty"`
}

type affinityRule struct {
	Nodes   []string `json:"nodes,omitempty"`
	Feature string   `json:"feature,omitempty"`
	Users   []int    `json:"users,omitempty"`
	Groups  []int    `json:"groups,omitempty"`
	Classes []string `json:"classes,omitempty"`
	Value   int      `json:"value"`
}

type regionRules struct {
	Name      string   `json:"name"`
	Signature string   `json:"signature,omitempty"`
	Nodes     []string `json:"nodes,omitzero"`
	Width     *word    `json:"gate_width,omitempty"`
	Users     []int    `json:"gate_users,omitzero"`
	Groups    []int    `json:"gate_groups,omitzero"`
	Classes   []string `json:"gate_classes,omitzero"`
}

// choosing are the options of a job.
type choosing struct {
	Set        *string `json:"node_set,omitempty"`
	Optional   *answer `json:"node_set_optional,omitempty"`
	Tolerance  *answer `json:"node_set_tolerance,omitempty"`
	Priority   *string `json:"node_set_priority,omitempty"`
	Plus       *string `json:"node_set_plus,omitempty"`
	Delay      *answer `json:"node_set_delay,omitempty"`
	Class      *string `json:"class,omitempty"`
	NodeAlloc  *string `json:"node_alloc,omitempty"`
	Shape      *word   `json:"shape,omitempty"`
	PerNUMA    *word   `json:"per_numa,omitempty"`
	NUMANodes  *word   `json:"numa_nodes,omitempty"`
	NUMAList   *word   `json:"numa_list,omitempty"`
	StrictMem  *bool   `json:"strict_mem,omitempty"`
	HWThreads  *word   `json:"hw_threads,omitempty"`
	Reserve    *word   `json:"reserve_cpus,omitempty"`
	MemPerRank *word   `json:"mem_per_rank,omitempty"`
	Contiguous *string `json:"contiguous,omitempty"`
}

// readChoosing reads the options, the rules, and how long the job has waited.
func (s *State) readChoosing(f *stateFile) error {
	if !(f.Waited >= 0) || f.Waited > nodeset.MaxTime.Seconds() {
		return bad("waited is no time")
	}
	s.Waited = time.Duration(math.Ceil(f.Waited * float64(time.Second)))
	s.Flags.Choosing = f.Options.choosing.flags()
	return f.Config.rules.read(&s.Rules)
}

// flags are the options of a job.
func (o *choosing) flags() psi.Choosing {
	said := make(map[string]string)
	say(said, nodeset.KeyPriority, (*answer)(o.Priority))
	say(said, nodeset.KeyPlus, (*answer)(o.Plus))
	say(said, nodeset.KeyOptional, o.Optional)
	say(said, nodeset.KeyTolerance, o.Tolerance)
	say(said, nodeset.KeyDelay, o.Delay)
	return psi.Choosing{
		Sets: nodeset.Level{Spec: o.Set, Said: said}, Class: o.Class, NodeAlloc: o.NodeAlloc, StrictMem: o.StrictMem, Contiguous: o.Contiguous,
		Shape: (*string)(o.Shape), PerNUMA: (*string)(o.PerNUMA), NUMANodes: (*string)(o.NUMANodes), NUMAList: (*string)(o.NUMAList),
		HWThreads: (*string)(o.HWThreads), ReserveCPUs: (*string)(o.Reserve), MemPerRank: (*string)(o.MemPerRank),
	}
}

// say notes an answer under a key, if there is one.
func say(said map[string]string, key string, a *answer) {
	if a != nil {
		said[key] = string(*a)
	}
}

// read reads the rules of a cluster.
func (r *rules) read(into *job.Rules) (err error) {
	into.Domain, into.NodeAlloc = r.Domain, r.NodeAlloc
	if r.Set != nil {
		into.Sets, into.MaxDelay = r.Set.level(), (*string)(r.Set.MaxDelay)
		into.Closed = r.Set.PerJob != nil && strings.EqualFold(string(*r.Set.PerJob), "no")
	}
	for _, c := range r.Classes {
		class := job.Class{Name: c.Name, Access: job.Access{Users: c.Users, Groups: c.Groups}}
		if class.Sets, err = levelOf("config.classes: "+c.Name, c.Set); err != nil {
			return err
		}
		if c.Name == "" || slices.ContainsFunc(into.Classes, func(other job.Class) bool { return other.Name == c.Name }) {
			return bad(fmt.Sprintf("config.classes: a class needs a name of its own, unlike %q", c.Name))
		}
		into.Classes = append(into.Classes, class)
	}
	for _, a := range r.Affinity {
		if a.Value < -1 || a.Value > 1 {
			return bad(fmt.Sprintf("config.affinity: %d is not -1, 0 or 1", a.Value))
		}
		into.Affinity = append(into.Affinity, job.Affinity{Nodes: a.Nodes, Feature: a.Feature, Classes: a.Classes, Value: a.Value,
			Access: job.Access{Users: a.Users, Groups: a.Groups}})
	}
	return r.readRegions(into)
}

// readRegions reads the regions; names are unique, and those of the domain known.
func (r *rules) readRegions(into *job.Rules) error {
	known := make(map[string]bool)
	for _, region := range r.Regions {
		if region.Name == "" || known[region.Name] || (region.Signature == "") == (region.Nodes == nil) {
			return bad(fmt.Sprintf("config.regions: region %q needs a name of its own, and either a signature or nodes", region.Name))
		}
		known[region.Name] = true
		gate := job.Gate{Access: job.Access{Users: region.Users, Groups: region.Groups}, Classes: region.Classes}
		if region.Width != nil {
			width, err := gateWidth(string(*region.Width))
			if err != nil {
				return err
			}
			gate.Width = &width
		}
		into.Regions = append(into.Regions, job.Region{Name: region.Name, Nodes: region.Nodes, Signature: region.Signature, Gate: gate})
	}
	for _, name := range r.Domain {
		if !known[name] {
			return bad(fmt.Sprintf("config.domain: there is no region %q", name))
		}
	}
	return nil
}

// gateWidth reads a number of CPUs, or auto.
func gateWidth(text string) (int, error) {
	if text == "auto" {
		return job.AutoWidth, nil
	}
	n := atoi(text)
	if strings.Trim(text, "0123456789") != "" || len(text) > 9 {
		return 0, bad(fmt.Sprintf("config.regions: gate_width %q is neither auto nor a number", text))
	}
	return n, nil
}

// levelOf reads the default of a class: one text, or an object.
func levelOf(name string, raw json.RawMessage) (l nodeset.Level, err error) {
	var set setRules
	if len(raw) == 0 || string(raw) == "null" {
		return l, nil
	}
	if json.Unmarshal(raw, &l.Spec) == nil {
		return l, nil
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return l, bad(name + ": " + err.Error())
	}
	return set.level(), nil
}

// level is one default.
func (r *setRules) level() nodeset.Level {
	l := nodeset.Level{Said: make(map[string]string)}
	if r.Policy != nil {
		l.Pieces = &nodeset.Pieces{Policy: *r.Policy}
		if r.Attribute != nil {
			l.Pieces.Attribute = *r.Attribute
		}
		for _, item := range r.List {
			l.Pieces.List = append(l.Pieces.List, string(item))
		}
	}
	say(l.Said, nodeset.KeyOptional, r.Optional)
	say(l.Said, nodeset.KeyTolerance, r.Tolerance)
	say(l.Said, nodeset.KeyPriority, r.Priority)
	say(l.Said, nodeset.KeyDelay, r.Delay)
	if r.Plus != nil {
		l.Said[nodeset.KeyPlus] = strings.Join(r.Plus, ",")
	}
	return l
}

// readAttributes reads those of a node: a number, a text, or a list of texts each.
func readAttributes(raw map[string]json.RawMessage) (nodeset.Attributes, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	attributes := make(nodeset.Attributes, len(raw))
	for name, value := range raw {
		var text string
		var labels []string
		var number json.Number
		switch upper := nodeset.Named(name); {
		case json.Unmarshal(value, &text) == nil:
			attributes[upper] = nodeset.Value{Labels: []string{text}}
		case json.Unmarshal(value, &labels) == nil:
			attributes[upper] = nodeset.Value{Labels: labels}
		case json.Unmarshal(value, &number) == nil:
			n, ok := nodeset.ParseNumber(number.String())
			if !ok {
				return nil, fmt.Errorf("attributes: %s: %s %s", name, value, nodeset.NumberFault(number.String()))
			}
			attributes[upper] = nodeset.Value{Number: n}
		default:
			return nil, fmt.Errorf("attributes: %s is neither a number nor a text nor a list of texts", name)
		}
		for _, label := range attributes[nodeset.Named(name)].Labels {
			if !nodeset.IsLabel(label) {
				return nil, fmt.Errorf("attributes: %s: %q is no label: letters, digits, _ . + - only", name, label)
			}
		}
	}
	return attributes, nil
}

// traits takes a speed from what is said of a node, if a probe found it.
func (n *node) traits(policy *job.Policy) (t job.Traits, err error) {
	if n.Quality == "" || n.Quality == job.Given {
		return t, nil
	}
	each := nodeset.Whole(1)
	speed := policy.Attributes[nodeset.ProcSpeed].Number
	if t = (job.Traits{Speed: int(speed / each), Quality: n.Quality}); speed%each != 0 || !t.Probed() {
		return t, fmt.Errorf("speed_quality: %q needs a PROCSPEED that is a whole number, and is one of given, nominal, max, measured", n.Quality)
	}
	if delete(policy.Attributes, nodeset.ProcSpeed); len(policy.Attributes) == 0 {
		policy.Attributes = nil
	}
	return t, nil
}

// judgeKinds refuses an attribute that is text on one node and a number on another.
func (s *State) judgeKinds() error {
	_, mixed := nodeset.KindsOf(len(s.Nodes), func(i int) nodeset.Attributes { return s.Nodes[i].Attributes })
	if mixed != "" {
		return bad("attribute " + mixed + " is text on some nodes, and a number on others")
	}
	return nil
}
