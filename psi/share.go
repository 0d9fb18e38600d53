package psi

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"remshell/job"
)

// readRankNeeds reads the number of CPUs per rank, the number of ranks per node, and the features that each node must
// have.
func (c *Settings) readRankNeeds(in Input) error {
	if err := c.readThreads(in); err != nil {
		return err
	}
	if ppn := in.Flags.PPN; ppn != nil {
		n, ok := parseNumber(trimBlanks(*ppn), 0, 1<<31-1)
		if !ok {
			return &Error{Code: "bad-ppn", Source: "--ppn", Token: *ppn, Problem: "is not a valid number", Allowed: []string{"0 and positive numbers"}}
		}
		c.PerNode = n
	}
	return c.readFeatures(in)
}

// readThreads determines the number of CPUs per rank. An invalid OMP_NUM_THREADS only causes a warning,
// because this variable belongs to OpenMP and not to mpiexec (placement.md 1.3).
func (c *Settings) readThreads(in Input) error {
	source, value, defined := "--tpp", "", in.Flags.TPP != nil
	if defined {
		value = *in.Flags.TPP
	} else {
		source = "PSI_TPP"
		value, defined = in.Env(source)
	}
	const allowed = "1-65535"
	c.CPUsPerRank = 1
	if defined {
		n, ok := parseNumber(trimBlanks(value), 1, 65535)
		if !ok {
			return &Error{Code: "bad-tpp", Source: source, Token: trimBlanks(value), Problem: "is not a valid number", Allowed: []string{allowed}}
		}
		c.CPUsPerRank, c.CPUsPerRankOrigin = n, source
		return nil
	}
	source = "OMP_NUM_THREADS"
	if value, defined = in.Env(source); !defined {
		return nil
	}
	first, _, _ := strings.Cut(value, ",")
	if n, ok := parseNumber(trimBlanks(first), 1, 65535); ok {
		c.CPUsPerRank, c.CPUsPerRankOrigin = n, source
		return nil
	}
	c.addWarning("bad-omp-num-threads", "%s: %q is not a valid number, so each process gets 1 CPU; allowed: %s", source, value, allowed)
	return nil
}

// readFeatures reads the features that each node must have. It returns an error for a feature that the cluster file
// gives to no node, unless mpiexec can detect the feature on the nodes.
func (c *Settings) readFeatures(in Input) error {
	source, value := "--nodetype", ""
	if in.Flags.Features != nil {
		value = *in.Flags.Features
	} else {
		source = "PSI_HW_TYPE"
		value, _ = in.Env(source)
	}
	wanted := splitWords(value)
	if len(wanted) == 0 {
		return nil
	}
	known := make(map[string]bool)
	for _, f := range in.HostFeatures {
		known[f] = true
	}
	for _, n := range in.Nodes {
		for _, f := range n.Features {
			known[f] = true
		}
	}
	for _, w := range wanted {
		switch {
		case known[w]:
			c.Features = append(c.Features, w)
		case slices.Contains(job.ProbedFeatures, w):
			c.ProbedFeatures = append(c.ProbedFeatures, w)
		default:
			for _, probed := range job.ProbedFeatures {
				known[probed] = true
			}
			return &Error{Code: "unknown-hwtype", Source: source, Token: w, Problem: "is a feature that no node of the cluster file has",
				Allowed: slices.Sorted(maps.Keys(known))}
		}
	}
	return nil
}

// splitWords splits text at blanks and commas.
func splitWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || strings.ContainsRune(blanks, r) })
}

// parseNumber parses a decimal number from minimum to maximum that consists only of digits. It returns false for any
// other text.
func parseNumber(text string, minimum, maximum int) (int, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && minimum <= n && n <= maximum
}
