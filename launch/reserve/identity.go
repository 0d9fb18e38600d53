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

	"remshell/job"
	"remshell/usererr"
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

// checkIdentities drops candidates that claim to be another one's machine and do not show it. Where
// none may be dropped that is an error.
func (r *reservation) checkIdentities(ctx context.Context) error {
	var lines []string
	claimed := r.byIdentity()
	for _, identity := range slices.Sorted(maps.Keys(claimed)) {
		alike := slices.DeleteFunc(claimed[identity], func(n *host) bool { return n.lost != nil }) // meanwhile
		if len(alike) < 2 || r.alreadyShown(alike) {
			continue
		}
		found, words, err := r.exchangeMarks(ctx, alike)
		if err != nil {
			return err
		}
		for i, x := range alike {
			for _, y := range alike[i+1:] {
				if line := r.mergeIfSame(x, y, found[x][words[y]], found[y][words[x]]); line != "" {
					lines = append(lines, line)
				}
			}
		}
	}
	r.keepHosts(func(n *host) bool { return n.lost != errNotThatMachine })
	switch {
	case len(lines) == 0:
		return nil
	case !r.req.SkipUnreachable:
		return &usererr.Error{Text: strings.Join(lines, "\n"), Code: job.ExitInternal}
	}
	for _, line := range lines {
		r.reportOnce(line)
	}
	return nil
}

// byIdentity are the candidates by the machines that they say to be.
func (r *reservation) byIdentity() map[string][]*host {
	by := make(map[string][]*host)
	for _, n := range r.connectedCandidates() {
		if identity := n.Node.Probe.Identity; identity != "" {
			by[identity] = append(by[identity], n)
		}
	}
	return by
}

// alreadyShown reports whether it is known already that some nodes are one machine.
func (r *reservation) alreadyShown(alike []*host) bool {
	for _, n := range alike {
		if !n.ofJob && n.sameMachine != alike[0] {
			return false
		}
	}
	return true
}

// exchangeMarks gives each of some nodes a word and returns who has found which.
func (r *reservation) exchangeMarks(ctx context.Context, alike []*host) (found map[*host]map[string]bool, words map[*host]string, err error) {
	tag := rand.Text()
	found, words = make(map[*host]map[string]bool), make(map[*host]string)
	for _, n := range alike {
		found[n], words[n] = make(map[string]bool), rand.Text()
	}
	err = r.requestEach(ctx, r.replyTimeout(), alike, func(n *host) wire.Message { return &wire.WriteMark{Tag: tag, Mark: words[n]} }, func(n *host, m wire.Message) bool {
		laid, ok := m.(*wire.MarkWritten)
		if ok && laid.Err != "" {
			r.env.Log.Warn().Str("node", n.Name()).Msg("its word cannot be laid open: " + laid.Err)
		}
		return ok
	})
	if err == nil {
		err = r.requestEach(ctx, r.replyTimeout(), alike, func(*host) wire.Message { return &wire.ReadMarks{Tag: tag} }, func(n *host, m wire.Message) bool {
			sought, ok := m.(*wire.MarksRead)
			if ok {
				for _, word := range sought.Marks {
					found[n][word] = true
				}
			}
			return ok
		})
	}
	return found, words, err
}

// mergeIfSame takes two nodes for one machine if each has found the word of the other. What it
// returns is what to say if not.
func (r *reservation) mergeIfSame(x, y *host, xFound, yFound bool) string {
	if x.lost != nil || y.lost != nil {
		return "" // that is told otherwise, or has been
	}
	if xFound && yFound {
		x.sameMachine = cmp.Or(x.sameMachine, x)
		y.sameMachine = x.sameMachine
		return ""
	}
	line := fmt.Sprintf("%s and %s both say that they are machine %s, and are not; ", x.Name(), y.Name(), x.Node.Probe.Identity)
	var unused []string
	for _, n := range []struct {
		*host
		found bool
	}{{x, xFound}, {y, yFound}} {
		if n.found || n.ofJob {
			continue
		}
		unused = append(unused, n.Name())
		n.lost = errNotThatMachine
		r.errs[n.Name()] = errNotThatMachine
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

// errNotThatMachine is why a candidate is not used that says to be another one's machine. The user
// has been told.
var errNotThatMachine = errors.New("it is not the machine that it says to be; not used")
