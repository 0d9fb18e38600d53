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
	Policy    *string           `json:"policy,omitempty"`
	Attribute *string           `json:"attribute,omitempty"`
	List      []json.RawMessage `json:"list,omitempty"`
	Optional  json.RawMessage   `json:"optional,omitempty"`
	Tolerance json.RawMessage   `json:"tolerance,omitempty"`
	Priority  json.RawMessage   `json:"priority,omitempty"`
	Plus      json.RawMessage   `json:"plus,omitempty"`
	Delay     json.RawMessage   `json:"delay,omitempty"`
	MaxDelay  json.RawMessage   `json:"max_delay,omitempty"`
	PerJob    json.RawMessage   `json:"per_job,omitempty"`
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
	Name      string          `json:"name"`
	Signature string          `json:"signature,omitempty"`
	Nodes     []string        `json:"nodes,omitzero"`
	Width     json.RawMessage `json:"gate_width,omitempty"`
	Users     []int           `json:"gate_users,omitzero"`
	Groups    []int           `json:"gate_groups,omitzero"`
	Classes   []string        `json:"gate_classes,omitzero"`
}

// choosing are the options of a job.
type choosing struct {
	Set        *string         `json:"node_set,omitempty"`
	Optional   json.RawMessage `json:"node_set_optional,omitempty"`
	Tolerance  json.RawMessage `json:"node_set_tolerance,omitempty"`
	Priority   *string         `json:"node_set_priority,omitempty"`
	Plus       *string         `json:"node_set_plus,omitempty"`
	Delay      json.RawMessage `json:"node_set_delay,omitempty"`
	Class      *string         `json:"class,omitempty"`
	NodeAlloc  *string         `json:"node_alloc,omitempty"`
	Shape      json.RawMessage `json:"shape,omitempty"`
	PerNUMA    json.RawMessage `json:"per_numa,omitempty"`
	NUMANodes  json.RawMessage `json:"numa_nodes,omitempty"`
	NUMAList   json.RawMessage `json:"numa_list,omitempty"`
	StrictMem  *bool           `json:"strict_mem,omitempty"`
	HWThreads  json.RawMessage `json:"hw_threads,omitempty"`
	Reserve    json.RawMessage `json:"reserve_cpus,omitempty"`
	MemPerRank json.RawMessage `json:"mem_per_rank,omitempty"`
	Contiguous *string         `json:"contiguous,omitempty"`
}

// readChoosing reads the options, the rules, and how long the job has waited.
func (s *State) readChoosing(f *stateFile) error {
	if !(f.Waited >= 0) || f.Waited > nodeset.MaxTime.Seconds() {
		return bad("waited is no time")
	}
	s.Waited = time.Duration(math.Ceil(f.Waited * float64(time.Second)))
	if err := f.Options.choosing.read(&s.Flags.Choosing); err != nil {
		return err
	}
	return f.Config.rules.read(&s.Rules)
}

// read reads the options of a job.
func (o *choosing) read(flags *psi.Choosing) (err error) {
	flags.Sets = nodeset.Level{Spec: o.Set, Said: make(map[string]string)}
	for key, value := range map[string]*string{nodeset.KeyPriority: o.Priority, nodeset.KeyPlus: o.Plus} {
		if value != nil {
			flags.Sets.Said[key] = *value
		}
	}
	for _, f := range []struct {
		key   string
		value json.RawMessage
	}{{nodeset.KeyOptional, o.Optional}, {nodeset.KeyTolerance, o.Tolerance}, {nodeset.KeyDelay, o.Delay}} {
		if err := say(flags.Sets.Said, f.key, "options.node_set_"+f.key, f.value); err != nil {
			return err
		}
	}
	flags.Class, flags.NodeAlloc, flags.StrictMem, flags.Contiguous = o.Class, o.NodeAlloc, o.StrictMem, o.Contiguous
	for _, f := range []struct {
		name  string
		value json.RawMessage
		into  **string
	}{
		{"shape", o.Shape, &flags.Shape}, {"per_numa", o.PerNUMA, &flags.PerNUMA}, {"numa_nodes", o.NUMANodes, &flags.NUMANodes},
		{"numa_list", o.NUMAList, &flags.NUMAList}, {"hw_threads", o.HWThreads, &flags.HWThreads},
		{"reserve_cpus", o.Reserve, &flags.ReserveCPUs}, {"mem_per_rank", o.MemPerRank, &flags.MemPerRank},
	} {
		if *f.into, err = scalar("options."+f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

// say notes a text, number or truth under a key, if there is one.
func say(said map[string]string, key, name string, raw json.RawMessage) error {
	if text, truth := map[string]string{"true": "yes", "false": "no"}[string(raw)]; truth {
		said[key] = text
		return nil
	}
	text, err := scalar(name, raw)
	if text != nil {
		said[key] = *text
	}
	return err
}

// read reads the rules of a cluster.
func (r *rules) read(into *job.Rules) (err error) {
	into.Domain, into.NodeAlloc = r.Domain, r.NodeAlloc
	if r.Set != nil {
		if into.Sets, err = r.Set.level("config.nodeset"); err != nil {
			return err
		}
		if into.MaxDelay, err = scalar("config.nodeset.max_delay", r.Set.MaxDelay); err != nil {
			return err
		}
		said := make(map[string]string)
		if err := say(said, "", "config.nodeset.per_job", r.Set.PerJob); err != nil {
			return err
		}
		into.Closed = strings.EqualFold(said[""], "no")
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
		width, err := scalar("config.regions.gate_width", region.Width)
		if err != nil {
			return err
		}
		if width != nil {
			gate.Width = new(int)
			if *gate.Width, err = gateWidth(*width); err != nil {
				return err
			}
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
	return set.level(name)
}

// level reads one default.
func (r *setRules) level(name string) (nodeset.Level, error) {
	l := nodeset.Level{Said: make(map[string]string)}
	if r.Policy != nil {
		l.Pieces = &nodeset.Pieces{Policy: *r.Policy}
		if r.Attribute != nil {
			l.Pieces.Attribute = *r.Attribute
		}
		for _, raw := range r.List {
			word, err := scalar(name+".list", raw)
			if err != nil || word == nil {
				return l, bad(name + ".list: neither a text nor a number")
			}
			l.Pieces.List = append(l.Pieces.List, *word)
		}
	}
	plus := r.Plus
	if words := []string(nil); json.Unmarshal(plus, &words) == nil && words != nil {
		plus, _ = json.Marshal(strings.Join(words, ","))
	}
	for _, f := range []struct {
		key   string
		value json.RawMessage
	}{
		{nodeset.KeyOptional, r.Optional}, {nodeset.KeyTolerance, r.Tolerance}, {nodeset.KeyPriority, r.Priority},
		{nodeset.KeyPlus, plus}, {nodeset.KeyDelay, r.Delay},
	} {
		if err := say(l.Said, f.key, name+"."+f.key, f.value); err != nil {
			return l, err
		}
	}
	return l, nil
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
