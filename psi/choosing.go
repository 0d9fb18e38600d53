package psi

import (
	"errors"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/plan/nodeset"
)

// Over takes each flag from where it is given first.
func (c Choosing) Over(weaker Choosing) Choosing {
	c.Sets = c.Sets.Over(weaker.Sets)
	for _, f := range []struct{ own, other **string }{
		{&c.Class, &weaker.Class}, {&c.NodeAlloc, &weaker.NodeAlloc}, {&c.ReserveCPUs, &weaker.ReserveCPUs}, {&c.MemPerRank, &weaker.MemPerRank},
		{&c.Contiguous, &weaker.Contiguous}, {&c.Shape, &weaker.Shape}, {&c.PerNUMA, &weaker.PerNUMA}, {&c.NUMANodes, &weaker.NUMANodes},
		{&c.NUMAList, &weaker.NUMAList}, {&c.HWThreads, &weaker.HWThreads},
	} {
		if *f.own == nil {
			*f.own = *f.other
		}
	}
	if c.StrictMem == nil {
		c.StrictMem = weaker.StrictMem
	}
	return c
}

// class finds the class of the job, and what the cluster says for it.
func (c *Choice) class(in Input) error {
	source, name, given := either(in, "--class", in.Flags.Class, "PSI_CLASS")
	if !given {
		return nil
	}
	i := slices.IndexFunc(in.Rules.Classes, func(class job.Class) bool { return class.Name == name })
	if i >= 0 && in.Rules.Classes[i].Admits(in.User) {
		c.Class = name
		return nil
	}
	refusal := &Error{Code: "bad-class", Source: source, Token: name, What: "no class"}
	if i >= 0 {
		refusal.What = "you may not use class"
	}
	for _, class := range in.Rules.Classes {
		refusal.Allowed = append(refusal.Allowed, class.Name)
	}
	return refusal
}

// either is a flag or, if it was not given, a variable.
func either(in Input, flag string, value *string, variable string) (source, text string, given bool) {
	if value != nil {
		return flag, strip(*value), true
	}
	text, given = in.Env(variable)
	return variable, strip(text), given
}

// sets finds which node sets the job may choose among, of all who may say so.
func (c *Choice) sets(in Input) error {
	kinds, mixed := nodeset.KindsOf(len(in.Nodes), func(i int) nodeset.Attributes { return in.Nodes[i].Attributes })
	if mixed != "" {
		return &Error{Code: "bad-node-set", What: "attribute " + mixed + " is text on some nodes, and a number on others"}
	}
	levels := nodeset.Levels{
		Cluster:  named(in.Rules.Sets, "nodeset", func(key string) string { return "nodeset." + key }),
		Flags:    named(in.Flags.Sets, "--node-set", func(key string) string { return "--node-set-" + key }),
		MaxDelay: time.Hour, Closed: in.Rules.Closed, Listed: in.Listed || in.Placed || c.From != "",
	}
	levels.Variables = variables(in)
	for _, class := range in.Rules.Classes {
		if class.Name == c.Class {
			source := "class " + class.Name
			levels.Class = named(class.Sets, source, func(key string) string { return source + ": " + key })
		}
	}
	if text := in.Rules.MaxDelay; text != nil {
		var ok bool
		if levels.MaxDelay, ok = nodeset.ParseTime(strip(*text)); !ok {
			return &Error{Code: "bad-node-set", Source: "nodeset.maxDelay", Token: *text, What: "no time", Allowed: []string{"SECONDS", "1h30m"}}
		}
	}
	c.MaxDelay = levels.MaxDelay
	var err error
	var wrong *nodeset.Refusal
	if c.Set, err = levels.Resolve(kinds); errors.As(err, &wrong) {
		what := wrong.Reason
		if what == "" {
			what = "bad value"
		}
		return &Error{Code: "bad-node-set", Source: wrong.Source, Token: wrong.Token, What: what, Allowed: wrong.Allowed}
	}
	if in.Placed && c.Set.Policy != "" { // a user's: those of cluster and class do not count there
		return &Error{Code: "bad-node-set", Source: c.Set.From, Token: c.Set.Request.String(), What: "every rank has its node, so that nothing is chosen", Allowed: []string{"none"}}
	}
	if c.Set.Cut > 0 {
		c.warn("delay-cut", "a delay of %s is cut to %s, the longest that the cluster file allows", c.Set.Cut, c.Set.Delay)
	}
	if c.Set.Policy == nodeset.AnyOf && c.Set.Plus.SpanEvenly {
		c.warn("span-ignored", "SPANEVENLY has no effect with ANYOF, which mixes sets as it is")
	}
	return err
}

// named gives a level its names.
func named(l nodeset.Level, source string, key func(string) string) nodeset.Level {
	l.Source, l.Key = source, key
	return l
}

// variables are what PSI_NODESET and its like say.
func variables(in Input) nodeset.Level {
	l := named(nodeset.Level{Said: make(map[string]string)}, "PSI_NODESET", func(key string) string { return "PSI_NODESET_" + strings.ToUpper(key) })
	if text, defined := in.Env(l.Source); defined {
		l.Spec = &text
	}
	for _, key := range nodeset.Keys {
		if text, defined := in.Env(l.Key(key)); defined {
			l.Said[key] = text
		}
	}
	return l
}

// affinity finds which nodes had better be used for the job, and which not.
func (c *Choice) affinity(in Input) error {
	for _, a := range in.Rules.Affinity {
		if a.Lists(in.User) && (a.Classes == nil || slices.Contains(a.Classes, c.Class)) {
			c.Affinity = append(c.Affinity, a)
		}
	}
	return nil
}

// nodeAlloc finds what is looked for in the nodes that were chosen.
func (c *Choice) nodeAlloc(in Input) error {
	source, word := "--node-alloc", ""
	if flag := in.Flags.NodeAlloc; flag != nil {
		word = strip(*flag)
	} else if source, word = "nodeAlloc", in.Rules.NodeAlloc; word == "" {
		return nil
	}
	if c.Balance = strings.EqualFold(word, "MAXBALANCE"); !c.Balance && !strings.EqualFold(word, "DEFAULT") {
		return &Error{Code: "bad-value", Source: source, Token: word, What: "bad value", Allowed: []string{"MAXBALANCE", "DEFAULT"}}
	}
	return nil
}

// contiguous finds how neighbouring nodes are looked for.
func (c *Choice) contiguous(in Input) error {
	word := in.Flags.Contiguous
	if word == nil {
		return nil
	}
	switch way := job.Contiguity(strip(*word)); way {
	case job.ContiguousFirst, job.ContiguousBest:
		c.Contiguous = way
		return nil
	}
	return badValue("--contiguous", *word, string(job.ContiguousFirst), string(job.ContiguousBest))
}

// regions finds the parts of the cluster that the job may enter by their gates.
func (c *Choice) regions(in Input) error {
	c.Regions, c.Domain = in.Rules.Regions, in.Rules.Domain
	return nil
}
