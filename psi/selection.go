package psi

import (
	"errors"
	"slices"
	"strings"
	"time"

	"remshell/job"
	"remshell/plan/nodeset"
)

// WithDefaults returns a copy of c in which each option that is not given gets its value from weaker.
func (c SelectionFlags) WithDefaults(weaker SelectionFlags) SelectionFlags {
	c.Sets = c.Sets.WithDefaults(weaker.Sets)
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

// readClass determines the class of the job. It returns an error if the class is unknown or the user may not use
// the class.
func (c *Settings) readClass(in Input) error {
	source, name, given := flagOrVariable(in, "--class", in.Flags.Class, "PSI_CLASS")
	if !given {
		return nil
	}
	i := slices.IndexFunc(in.Rules.Classes, func(class job.Class) bool { return class.Name == name })
	if i >= 0 && in.Rules.Classes[i].Admits(in.User) {
		c.Class = name
		return nil
	}
	refusal := &Error{Code: "bad-class", Source: source, Token: name, Problem: "is not a class of the cluster file"}
	if i >= 0 {
		refusal.Problem = "is a class that you are not allowed to use"
	}
	for _, class := range in.Rules.Classes {
		refusal.Allowed = append(refusal.Allowed, class.Name)
	}
	return refusal
}

// flagOrVariable returns the value of a command-line flag or, if value is nil, of an environment variable. text is that
// value, and source is the name of the flag or variable that was used. found is false if neither is set.
func flagOrVariable(in Input, flag string, value *string, variable string) (source, text string, found bool) {
	if value != nil {
		return flag, trimBlanks(*value), true
	}
	text, found = in.Env(variable)
	return variable, trimBlanks(text), found
}

// readNodeSets determines the node-set request of the job from the cluster file, the class, variables and options.
func (c *Settings) readNodeSets(in Input) error {
	kinds, mixed := nodeset.KindsOf(len(in.Nodes), func(i int) nodeset.Attributes { return in.Nodes[i].Attributes })
	if mixed != "" {
		return &Error{Code: "bad-node-set", Problem: "attribute " + mixed + " is a string on some nodes and a number on others"}
	}
	levels := nodeset.Levels{
		Cluster:  withSourceNames(in.Rules.NodeSetDefaults, "nodeset", func(key string) string { return "nodeset." + key }),
		Flags:    withSourceNames(in.Flags.Sets, "--node-set", func(key string) string { return "--node-set-" + key }),
		MaxDelay: time.Hour, UsersDenied: in.Rules.UserSetsForbidden, NodesListed: in.HostsNamed || in.RanksPlaced || c.Source != "",
	}
	levels.Variables = variableLevel(in)
	for _, class := range in.Rules.Classes {
		if class.Name == c.Class {
			source := "class " + class.Name
			levels.Class = withSourceNames(class.NodeSetDefaults, source, func(key string) string { return source + ": " + key })
		}
	}
	if text := in.Rules.MaxDelay; text != nil {
		var ok bool
		if levels.MaxDelay, ok = nodeset.ParseTime(trimBlanks(*text)); !ok {
			return &Error{Code: "bad-node-set", Source: "nodeset.maxDelay", Token: *text, Problem: "is not a valid time", Allowed: []string{"seconds such as 90", "times such as 1h30m"}}
		}
	}
	c.MaxDelay = levels.MaxDelay
	var err error
	var wrong *nodeset.SourceError
	if c.NodeSet, err = levels.Resolve(kinds); errors.As(err, &wrong) {
		what := wrong.Reason
		if what == "" {
			what = "is not valid"
		}
		return &Error{Code: "bad-node-set", Source: wrong.Source, Token: wrong.Token, Problem: what, Allowed: wrong.Allowed}
	}
	if in.RanksPlaced && c.NodeSet.Policy != "" { // the user's request; requests of cluster and class are ignored
		return &Error{Code: "bad-node-set", Source: c.NodeSet.Source, Token: c.NodeSet.Request.String(), Problem: "cannot be used, because each rank has a fixed node", Allowed: []string{"none"}}
	}
	if c.NodeSet.RequestedDelay > 0 {
		c.addWarning("delay-cut", "mpiexec reduced the delay of %s to %s, the maximum in the cluster file", c.NodeSet.RequestedDelay, c.NodeSet.Delay)
	}
	if c.NodeSet.Policy == nodeset.AnyOf && c.NodeSet.Plus.SpanEvenly {
		c.addWarning("span-ignored", "SPANEVENLY has no effect with ANYOF, which already mixes sets")
	}
	return err
}

// withSourceNames returns a copy of l with the names that messages use for the options or variables from which l was
// read. The node set is from source, and the modifier k is from key(k).
func withSourceNames(l nodeset.Level, source string, key func(string) string) nodeset.Level {
	l.Source, l.ModifierSource = source, key
	return l
}

// variableLevel returns the node-set request that the variables PSI_NODESET and PSI_NODESET_* specify.
func variableLevel(in Input) nodeset.Level {
	l := withSourceNames(nodeset.Level{Modifiers: make(map[string]string)}, "PSI_NODESET", func(key string) string { return "PSI_NODESET_" + strings.ToUpper(key) })
	if text, defined := in.Env(l.Source); defined {
		l.Spec = &text
	}
	for _, key := range nodeset.Keys {
		if text, defined := in.Env(l.ModifierSource(key)); defined {
			l.Modifiers[key] = text
		}
	}
	return l
}

// readAffinity selects the affinity rules that apply to the job. These rules say which nodes the job prefers or
// avoids.
func (c *Settings) readAffinity(in Input) error {
	for _, a := range in.Rules.Affinity {
		if a.Includes(in.User) && (a.Classes == nil || slices.Contains(a.Classes, c.Class)) {
			c.Affinity = append(c.Affinity, a)
		}
	}
	return nil
}

// readNodeAlloc reads the criterion by which nodes are chosen (nodeAlloc).
func (c *Settings) readNodeAlloc(in Input) error {
	source, word := "--node-alloc", ""
	if flag := in.Flags.NodeAlloc; flag != nil {
		word = trimBlanks(*flag)
	} else if source, word = "nodeAlloc", in.Rules.NodeAlloc; word == "" {
		return nil
	}
	if c.Balance = strings.EqualFold(word, "MAXBALANCE"); !c.Balance && !strings.EqualFold(word, "DEFAULT") {
		return &Error{Code: "bad-value", Source: source, Token: word, Problem: "is not valid", Allowed: []string{"MAXBALANCE", "DEFAULT"}}
	}
	return nil
}

// readContiguous reads how mpiexec searches for contiguous nodes.
func (c *Settings) readContiguous(in Input) error {
	word := in.Flags.Contiguous
	if word == nil {
		return nil
	}
	switch search := job.Contiguity(trimBlanks(*word)); search {
	case job.ContiguousFirst, job.ContiguousBest:
		c.Contiguous = search
		return nil
	}
	return badValue("--contiguous", *word, string(job.ContiguousFirst), string(job.ContiguousBest))
}

// readRegions stores the cluster's regions, and the domain, which lists the regions that jobs may use.
func (c *Settings) readRegions(in Input) error {
	c.Regions, c.Domain = in.Rules.Regions, in.Rules.Domain
	return nil
}
