package reserve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"remshell/fault"
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
func (r *reservation) identify(ctx context.Context) error {
	var lines []string
	claimed := r.claimed()
	for _, identity := range slices.Sorted(maps.Keys(claimed)) {
		alike := slices.DeleteFunc(claimed[identity], func(n *host) bool { return n.lost != nil }) // meanwhile
		if len(alike) < 2 || r.shown(alike) {
			continue
		}
		found, words, err := r.exchangeWords(ctx, alike)
		if err != nil {
			return err
		}
		for i, x := range alike {
			for _, y := range alike[i+1:] {
				if line := r.compare(x, y, found[x][words[y]], found[y][words[x]]); line != "" {
					lines = append(lines, line)
				}
			}
		}
	}
	r.keep(func(n *host) bool { return n.lost != errImpostor })
	switch {
	case len(lines) == 0:
		return nil
	case !r.req.Skip:
		return &fault.Error{Text: strings.Join(lines, "\n"), Code: job.ExitInternal}
	}
	for _, line := range lines {
		r.sayOnce(line)
	}
	return nil
}

// claimed are the candidates by the machines that they say to be.
func (r *reservation) claimed() map[string][]*host {
	by := make(map[string][]*host)
	for _, n := range r.candidates() {
		if identity := n.Node.Probe.Identity; identity != "" {
			by[identity] = append(by[identity], n)
		}
	}
	return by
}

// shown reports whether it is known already that some nodes are one machine.
func (r *reservation) shown(alike []*host) bool {
	for _, n := range alike {
		if !n.own && n.twin != alike[0] {
			return false
		}
	}
	return true
}

// exchangeWords gives each of some nodes a word and returns who has found which.
func (r *reservation) exchangeWords(ctx context.Context, alike []*host) (found map[*host]map[string]bool, words map[*host]string, err error) {
	tag := rand.Text()
	found, words = make(map[*host]map[string]bool), make(map[*host]string)
	for _, n := range alike {
		found[n], words[n] = make(map[string]bool), rand.Text()
	}
	err = r.ask(ctx, r.answerTime(), alike, func(n *host) wire.Message { return &wire.Lay{Tag: tag, Word: words[n]} }, func(n *host, m wire.Message) bool {
		laid, ok := m.(*wire.Laid)
		if ok && laid.Err != "" {
			r.env.Log.Warn().Str("node", n.Name()).Msg("its word cannot be laid open: " + laid.Err)
		}
		return ok
	})
	if err == nil {
		err = r.ask(ctx, r.answerTime(), alike, func(*host) wire.Message { return &wire.Seek{Tag: tag} }, func(n *host, m wire.Message) bool {
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
func (r *reservation) compare(x, y *host, xFound, yFound bool) string {
	if x.lost != nil || y.lost != nil {
		return "" // that is told otherwise, or has been
	}
	if xFound && yFound {
		x.twin = cmp.Or(x.twin, x)
		y.twin = x.twin
		return ""
	}
	line := fmt.Sprintf("%s and %s both say that they are machine %s, and are not; ", x.Name(), y.Name(), x.Node.Probe.Identity)
	var unused []string
	for _, n := range []struct {
		*host
		found bool
	}{{x, xFound}, {y, yFound}} {
		if n.found || n.own {
			continue
		}
		unused = append(unused, n.Name())
		n.lost = errImpostor
		r.errs[n.Name()] = errImpostor
		go n.Close()
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
