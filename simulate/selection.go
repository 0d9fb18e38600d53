package simulate

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

// This file reads the parts of a state that determine the choice of nodes (which-hosts.md). Its keys are
// those of the cluster file in lower case, with _ between words.

// selectionRules are the cluster's rules for choosing nodes, as the state file contains them.
type selectionRules struct {
	Set       *setRules      `json:"nodeset,omitempty"`
	Classes   []classRules   `json:"classes,omitempty"`
	Affinity  []affinityRule `json:"affinity,omitempty"`
	Regions   []regionRules  `json:"regions,omitempty"`
	Domain    []string       `json:"domain,omitempty"`
	NodeAlloc string         `json:"node_alloc,omitempty"`
}

// setRules is a default node-set request in the state file. The default of a class may also be a single string.
type setRules struct {
	Policy    *string       `json:"policy,omitempty"`
	Attribute *string       `json:"attribute,omitempty"`
	List      []scalarText  `json:"list,omitempty"`
	Optional  *scalarOrBool `json:"optional,omitempty"`
	Tolerance *scalarOrBool `json:"tolerance,omitempty"`
	Priority  *scalarOrBool `json:"priority,omitempty"`
	Plus      textList      `json:"plus,omitempty"`
	Delay     *scalarOrBool `json:"delay,omitempty"`
	MaxDelay  *scalarText   `json:"max_delay,omitempty"`
	PerJob    *scalarOrBool `json:"per_job,omitempty"`
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
	Name      string      `json:"name"`
	Signature string      `json:"signature,omitempty"`
	Nodes     []string    `json:"nodes,omitzero"`
	Width     *scalarText `json:"gate_width,omitempty"`
	Users     []int       `json:"gate_users,omitzero"`
	Groups    []int       `json:"gate_groups,omitzero"`
	Classes   []string    `json:"gate_classes,omitzero"`
}

// selectionOptions are the job's options for choosing nodes, as the state file contains them.
type selectionOptions struct {
	Set        *string       `json:"node_set,omitempty"`
	Optional   *scalarOrBool `json:"node_set_optional,omitempty"`
	Tolerance  *scalarOrBool `json:"node_set_tolerance,omitempty"`
	Priority   *string       `json:"node_set_priority,omitempty"`
	Plus       *string       `json:"node_set_plus,omitempty"`
	Delay      *scalarOrBool `json:"node_set_delay,omitempty"`
	Class      *string       `json:"class,omitempty"`
	NodeAlloc  *string       `json:"node_alloc,omitempty"`
	Shape      *scalarText   `json:"shape,omitempty"`
	PerNUMA    *scalarText   `json:"per_numa,omitempty"`
	NUMANodes  *scalarText   `json:"numa_nodes,omitempty"`
	NUMAList   *scalarText   `json:"numa_list,omitempty"`
	StrictMem  *bool         `json:"strict_mem,omitempty"`
	HWThreads  *scalarText   `json:"hw_threads,omitempty"`
	Reserve    *scalarText   `json:"reserve_cpus,omitempty"`
	MemPerRank *scalarText   `json:"mem_per_rank,omitempty"`
	Contiguous *string       `json:"contiguous,omitempty"`
}

// readSelection reads the options and rules for choosing nodes, and how long the job has waited.
func (s *State) readSelection(f *stateFile) error {
	if !(f.Waited >= 0) || f.Waited > nodeset.MaxTime.Seconds() {
		return stateError("\"waited\" is not a valid number of seconds")
	}
	s.Waited = time.Duration(math.Ceil(f.Waited * float64(time.Second)))
	s.Flags.SelectionFlags = f.Options.selectionOptions.flags()
	return f.Config.selectionRules.readInto(&s.Rules)
}

// flags converts the options to the form that package psi reads.
func (o *selectionOptions) flags() psi.SelectionFlags {
	modifiers := make(map[string]string)
	noteModifier(modifiers, nodeset.KeyPriority, (*scalarOrBool)(o.Priority))
	noteModifier(modifiers, nodeset.KeyPlus, (*scalarOrBool)(o.Plus))
	noteModifier(modifiers, nodeset.KeyOptional, o.Optional)
	noteModifier(modifiers, nodeset.KeyTolerance, o.Tolerance)
	noteModifier(modifiers, nodeset.KeyDelay, o.Delay)
	return psi.SelectionFlags{
		Sets: nodeset.Level{Spec: o.Set, Modifiers: modifiers}, Class: o.Class, NodeAlloc: o.NodeAlloc, StrictMem: o.StrictMem, Contiguous: o.Contiguous,
		Shape: (*string)(o.Shape), PerNUMA: (*string)(o.PerNUMA), NUMANodes: (*string)(o.NUMANodes), NUMAList: (*string)(o.NUMAList),
		HWThreads: (*string)(o.HWThreads), ReserveCPUs: (*string)(o.Reserve), MemPerRank: (*string)(o.MemPerRank),
	}
}

// noteModifier stores value as a string in modifiers, unless value is nil.
func noteModifier(modifiers map[string]string, key string, value *scalarOrBool) {
	if value != nil {
		modifiers[key] = string(*value)
	}
}

// readInto converts the rules of the state file to job.SelectionRules, and stores them in rules.
func (r *selectionRules) readInto(rules *job.SelectionRules) (err error) {
	rules.Domain, rules.NodeAlloc = r.Domain, r.NodeAlloc
	if r.Set != nil {
		rules.NodeSetDefaults, rules.MaxDelay = r.Set.readLevel(), (*string)(r.Set.MaxDelay)
		rules.UserSetsForbidden = r.Set.PerJob != nil && strings.EqualFold(string(*r.Set.PerJob), "no")
	}
	for _, c := range r.Classes {
		class := job.Class{Name: c.Name, Access: job.Access{Users: c.Users, Groups: c.Groups}}
		if class.NodeSetDefaults, err = readClassLevel("config.classes: "+c.Name, c.Set); err != nil {
			return err
		}
		if c.Name == "" || slices.ContainsFunc(rules.Classes, func(other job.Class) bool { return other.Name == c.Name }) {
			return stateError(fmt.Sprintf("config.classes: the class name %q is empty or used twice", c.Name))
		}
		rules.Classes = append(rules.Classes, class)
	}
	for _, a := range r.Affinity {
		if a.Value < -1 || a.Value > 1 {
			return stateError(fmt.Sprintf("config.affinity: %d is not -1, 0 or 1", a.Value))
		}
		rules.Affinity = append(rules.Affinity, job.Affinity{Nodes: a.Nodes, Feature: a.Feature, Classes: a.Classes, Value: a.Value,
			Access: job.Access{Users: a.Users, Groups: a.Groups}})
	}
	return r.readRegions(rules)
}

// readRegions reads the regions of the state file. It returns an error if two regions have the same name, or if
// the key "domain" contains an unknown region.
func (r *selectionRules) readRegions(rules *job.SelectionRules) error {
	known := make(map[string]bool)
	for _, region := range r.Regions {
		if region.Name == "" || known[region.Name] || (region.Signature == "") == (region.Nodes == nil) {
			return stateError(fmt.Sprintf("config.regions: region %q must have a unique name, and either a signature or a list of nodes", region.Name))
		}
		known[region.Name] = true
		gate := job.Gate{Access: job.Access{Users: region.Users, Groups: region.Groups}, Classes: region.Classes}
		if region.Width != nil {
			width, err := readGateWidth(string(*region.Width))
			if err != nil {
				return err
			}
			gate.Width = &width
		}
		rules.Regions = append(rules.Regions, job.Region{Name: region.Name, Nodes: region.Nodes, Signature: region.Signature, Gate: gate})
	}
	for _, name := range r.Domain {
		if !known[name] {
			return stateError(fmt.Sprintf("config.domain: there is no region %q", name))
		}
	}
	return nil
}

// readGateWidth parses gate_width: "auto", or the number of CPUs that a job must exceed to use a region.
func readGateWidth(text string) (int, error) {
	if text == "auto" {
		return job.AutoWidth, nil
	}
	n := digitsValue(text)
	if strings.Trim(text, "0123456789") != "" || len(text) > 9 {
		return 0, stateError(fmt.Sprintf("config.regions: gate_width is %q, but must be auto or a number", text))
	}
	return n, nil
}

// readClassLevel parses the default node-set request of a class. raw is a string or an object.
func readClassLevel(name string, raw json.RawMessage) (l nodeset.Level, err error) {
	var set setRules
	if len(raw) == 0 || string(raw) == "null" {
		return l, nil
	}
	if json.Unmarshal(raw, &l.Spec) == nil {
		return l, nil
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return l, stateError(name + ": " + err.Error())
	}
	return set.readLevel(), nil
}

// readLevel converts a default node-set request of the state file to a nodeset.Level.
func (r *setRules) readLevel() nodeset.Level {
	l := nodeset.Level{Modifiers: make(map[string]string)}
	if r.Policy != nil {
		l.Parts = &nodeset.RequestParts{Policy: *r.Policy}
		if r.Attribute != nil {
			l.Parts.Attribute = *r.Attribute
		}
		for _, item := range r.List {
			l.Parts.List = append(l.Parts.List, string(item))
		}
	}
	noteModifier(l.Modifiers, nodeset.KeyOptional, r.Optional)
	noteModifier(l.Modifiers, nodeset.KeyTolerance, r.Tolerance)
	noteModifier(l.Modifiers, nodeset.KeyPriority, r.Priority)
	noteModifier(l.Modifiers, nodeset.KeyDelay, r.Delay)
	if r.Plus != nil {
		l.Modifiers[nodeset.KeyPlus] = strings.Join(r.Plus, ",")
	}
	return l
}

// readAttributes parses the attributes of a node. The value of an attribute is a number, a string, or a list of
// strings.
func readAttributes(raw map[string]json.RawMessage) (nodeset.Attributes, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	attributes := make(nodeset.Attributes, len(raw))
	for name, value := range raw {
		var text string
		var labels []string
		var number json.Number
		switch upper := nodeset.CanonicalName(name); {
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
			return nil, fmt.Errorf("attributes: %s is not a number, a string or a list of strings", name)
		}
		for _, label := range attributes[nodeset.CanonicalName(name)].Labels {
			if !nodeset.IsLabel(label) {
				return nil, fmt.Errorf("attributes: %s: %q is not a label; a label consists of letters, digits, _ . + and -", name, label)
			}
		}
	}
	return attributes, nil
}

// readAttributes returns the CPU speed of the node and removes it from policy, if a probe has found the speed. If the
// administrator has given the speed, or no speed is known, the result is empty.
func (n *node) readAttributes(policy *job.NodePolicy) (t job.Attributes, err error) {
	if n.Quality == "" || n.Quality == job.SpeedGiven {
		return t, nil
	}
	each := nodeset.FromInt(1)
	speed := policy.Attributes[nodeset.ProcSpeed].Number
	if t = (job.Attributes{Speed: int(speed / each), SpeedQuality: n.Quality}); speed%each != 0 || !t.IsValidProbe() {
		return t, fmt.Errorf("speed_quality must be \"given\", \"nominal\", \"max\" or \"measured\", and PROCSPEED must be a whole number; speed_quality is %q", n.Quality)
	}
	if delete(policy.Attributes, nodeset.ProcSpeed); len(policy.Attributes) == 0 {
		policy.Attributes = nil
	}
	return t, nil
}

// checkAttributeKinds returns an error if the value of an attribute is a string on one node and a number on another.
func (s *State) checkAttributeKinds() error {
	_, mixed := nodeset.KindsOf(len(s.Nodes), func(i int) nodeset.Attributes { return s.Nodes[i].Attributes })
	if mixed != "" {
		return stateError("attribute " + mixed + " is a string on some nodes and a number on others")
	}
	return nil
}
