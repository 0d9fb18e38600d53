//go:build linux

package helper

import (
	"slices"
	"sync"
	"time"

	"remshell/helper/rank"
	"remshell/pmiserver/pmix/message"
)

// A helpTexts prints what MPI libraries have to say of what went wrong, each text once for all
// ranks of the node (PMIX-48).
type helpTexts struct {
	warn func(format string, args ...any)

	mu     sync.Mutex            // guards the next two
	more   map[message.Topic]int // ranks that said the same as one before
	nobody bool                  // nobody is told of them any more
}

const (
	repeatsDelay = 5 * time.Second // until it is told how often a text has come again
	maxTopics    = 1 << 10         // that are remembered; of others each text is printed
)

func newHelpTexts(warn func(format string, args ...any)) *helpTexts {
	return &helpTexts{warn: warn, more: make(map[message.Topic]int)}
}

// first counts a text, and reports whether it has not been printed before.
func (h *helpTexts) first(of message.Topic) bool {
	if of.File == "" {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, known := h.more[of]
	switch {
	case !known && len(h.more) < maxTopics:
		h.more[of] = 0
	case known:
		if h.more[of]++; n == 0 {
			time.AfterFunc(repeatsDelay, func() { h.tell(of) })
		}
	}
	return !known
}

// tell says how often a text has come again since it was last told.
func (h *helpTexts) tell(of message.Topic) {
	h.mu.Lock()
	n := h.more[of]
	h.more[of] = 0
	nobody := h.nobody
	h.mu.Unlock()
	switch {
	case n == 0 || nobody:
	case n == 1:
		h.warn("(%s: the same from 1 more rank)", of.Name)
	default:
		h.warn("(%s: the same from %d more ranks)", of.Name, n)
	}
}

// close tells of what is not told yet, and of nothing after.
func (h *helpTexts) close() {
	h.mu.Lock()
	var all []message.Topic
	for of := range h.more {
		all = append(all, of)
	}
	h.mu.Unlock()
	for _, of := range all {
		h.tell(of)
	}
	h.mu.Lock()
	h.nobody = true
	h.mu.Unlock()
}

// wantsAll is by what a user has each rank's texts printed, as of Open MPI's own launcher.
const wantsAll = "OMPI_MCA_orte_base_help_aggregate=0"

// print puts a text behind what the rank has written to its standard output or error. Where that is
// closed, it is lost as the rank's own words would be.
func (h *helpTexts) print(r *process, text message.LogText) {
	if !slices.Contains(r.group.offers[r.plan.App].env, wantsAll) && !h.first(text.Topic) {
		return
	}
	terminal, merged := r.command.Terminal, r.command.Merge
	file := r.err.File
	if text.Stdout || terminal || merged {
		file = r.out.File
	}
	stream, err := rank.Behind(file, terminal)
	if err != nil {
		return
	}
	defer stream.Close()
	stream.SetWriteDeadline(time.Now().Add(printPatience))
	stream.WriteString(text.Text)
}

// printPatience is how long a text waits for somebody to take it.
const printPatience = 10 * time.Second
