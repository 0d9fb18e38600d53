package launch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/job"
	"remshell/wire"
)

/*
Two candidates count as one machine only if that is shown, and not if one says so: a host
could take the ranks of another by repeating its identity (TRUST-6). Each of those that claim
one identity gets a random word to lay open where only the same machine and name spaces can
see it, and has to find those of the others.

	          Lay WORD1                 Seek
	mpiexec -----------> n1   mpiexec -------> n1 : WORD1, WORD2    n2 is n1
	          Lay WORD2                 Seek
	        -----------> n2           -------> n2 : WORD1, WORD2
*/

// identify drops candidates that claim to be another one's machine and do not show it. Where
// none may be dropped that is an error.
func (b *booking) identify(ctx context.Context) error {
	var lines []string
	claimed := b.claimed()
	for _, identity := range slices.Sorted(maps.Keys(claimed)) {
		alike := slices.DeleteFunc(claimed[identity], func(n *node) bool { return n.lost != nil }) // meanwhile
		if len(alike) < 2 || b.shown(alike) {
			continue
		}
		found, words, err := b.exchangeWords(ctx, alike)
		if err != nil {
			return err
		}
		for i, x := range alike {
			for _, y := range alike[i+1:] {
				if line := b.compare(x, y, found[x][words[y]], found[y][words[x]]); line != "" {
					lines = append(lines, line)
				}
			}
		}
	}
	b.fleet.all = slices.DeleteFunc(b.fleet.all, func(n *node) bool { return n.lost == errImpostor })
	switch {
	case len(lines) == 0:
		return nil
	case !b.req.Skip:
		return &StartError{strings.Join(lines, "\n"), "", job.ExitInternal}
	}
	for _, line := range lines {
		b.sayOnce(line)
	}
	return nil
}

// claimed are the candidates by the machines that they say to be.
func (b *booking) claimed() map[string][]*node {
	by := make(map[string][]*node)
	for _, n := range b.candidates() {
		if n.identity != "" {
			by[n.identity] = append(by[n.identity], n)
		}
	}
	return by
}

// shown reports whether it is known already that some nodes are one machine.
func (b *booking) shown(alike []*node) bool {
	for _, n := range alike {
		if _, own := b.own[n]; !own && b.twins[n] != alike[0] {
			return false
		}
	}
	return true
}

// exchangeWords gives each of some nodes a word and returns who has found which.
func (b *booking) exchangeWords(ctx context.Context, alike []*node) (found map[*node]map[string]bool, words map[*node]string, err error) {
	tag := rand.Text()
	found, words = make(map[*node]map[string]bool), make(map[*node]string)
	for _, n := range alike {
		found[n], words[n] = make(map[string]bool), rand.Text()
	}
	err = b.ask(ctx, b.answerTime(), alike, func(n *node) wire.Message { return &wire.Lay{Tag: tag, Word: words[n]} }, func(n *node, m wire.Message) bool {
		laid, ok := m.(*wire.Laid)
		if ok && laid.Err != "" {
			b.env.Log.Warn().Str("node", n.name).Msg("its word cannot be laid open: " + laid.Err)
		}
		return ok
	})
	if err == nil {
		err = b.ask(ctx, b.answerTime(), alike, func(*node) wire.Message { return &wire.Seek{Tag: tag} }, func(n *node, m wire.Message) bool {
			sought, ok := m.(*wire.Sought)
			if ok {
				for _, word := range sought.Words {
					found[n][word] = true
				}
			}
			return ok
		})
	}
	return found, words, err
}

// compare takes two nodes for one machine if each has found the word of the other. What it
// returns is what to say if not.
func (b *booking) compare(x, y *node, xFound, yFound bool) string {
	if x.lost != nil || y.lost != nil {
		return "" // that is told otherwise, or has been
	}
	if xFound && yFound {
		b.twins[x] = cmp.Or(b.twins[x], x)
		b.twins[y] = b.twins[x]
		return ""
	}
	line := fmt.Sprintf("%s and %s both say that they are machine %s, and are not; ", x.name, y.name, x.identity)
	var unused []string
	for _, n := range []struct {
		*node
		found bool
	}{{x, xFound}, {y, yFound}} {
		if _, own := b.own[n.node]; n.found || own {
			continue
		}
		unused = append(unused, n.name)
		n.lost = errImpostor
		b.errs[n.name] = errImpostor
		go n.conn.Close()
	}
	if len(unused) == 0 {
		return ""
	}
	if len(unused) == 1 {
		return line + unused[0] + " is not used"
	}
	return line + strings.Join(unused, " and ") + " are not used"
}

// errImpostor is why a candidate is not used that says to be another one's machine. The user
// has been told.
var errImpostor = errors.New("it is not the machine that it says to be; not used")
