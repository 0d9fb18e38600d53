package nodeset

import (
	"slices"
	"strings"
	"time"
)

// A Priority says which node set is chosen if several sets can run the job.
type Priority string

// These are the ways to choose a node set if several can run the job.
const (
	FirstFit     Priority = "FIRSTFIT"     // the first in the list
	BestFit      Priority = "BESTFIT"      // the smallest capacity
	WorstFit     Priority = "WORSTFIT"     // the largest capacity
	BestResource Priority = "BESTRESOURCE" // the fastest
	MinLoss      Priority = "MINLOSS"      // the least speed lost if all ranks run as fast as the slowest
	ByAffinity   Priority = "AFFINITY"     // no avoided nodes, then most preferred ones
)

var priorities = []string{string(ByAffinity), string(BestFit), string(BestResource), string(FirstFit), string(MinLoss), string(WorstFit)}

// A Plus says what a job may do if no single set can run it now, such as waiting or using several sets.
type Plus struct {
	SpanEvenly bool // it spreads evenly over several sets
	Delay      bool // it waits for the best set
}

// String returns the modifier as users write it, such as "SPANEVENLY,DELAY".
func (p Plus) String() string {
	var words []string
	if p.SpanEvenly {
		words = append(words, "SPANEVENLY")
	}
	if p.Delay {
		words = append(words, "DELAY")
	}
	return strings.Join(words, ",")
}

func parseOptional(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "yes", "true":
		return true, nil
	case "no", "false":
		return false, nil
	}
	return false, &WordError{Token: text, Allowed: []string{"yes", "no"}}
}

func parseTolerance(text string) (Tolerance, error) {
	t, ok := ParseTolerance(text)
	if !ok {
		return 0, &WordError{Token: text, Allowed: []string{"0-10", "0%-1000%"}}
	}
	return t, nil
}

func parsePriority(text string) (Priority, error) {
	if !slices.Contains(priorities, strings.ToUpper(text)) {
		return "", &WordError{Token: text, Allowed: priorities}
	}
	return Priority(strings.ToUpper(text)), nil
}

func parsePlus(text string) (p Plus, err error) {
	for _, word := range SplitList(text) {
		switch strings.ToUpper(word) {
		case "SPANEVENLY":
			p.SpanEvenly = true
		case "DELAY":
			p.Delay = true
		default:
			return Plus{}, &WordError{Token: word, Allowed: []string{"SPANEVENLY", "DELAY"}}
		}
	}
	return p, nil
}

func parseDelay(text string) (time.Duration, error) {
	d, ok := ParseTime(text)
	if !ok {
		return 0, &WordError{Token: text, Allowed: []string{"SECONDS", "90s", "5m", "1h30m", "[[DD:]HH:]MM:SS"}}
	}
	return d, nil
}
