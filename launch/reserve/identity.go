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
Two candidates count as one machine only if both prove it. Otherwise a host could get the ranks of another host by
falsely reporting the other's identity (rule TRUST-6). If several candidates report one identity, mpiexec sends each of
them a random mark. Each candidate writes its mark where only processes of the same machine and name spaces can see it,
and must then be able to read the marks of the others.

	        WriteMark MARK1             ReadMarks
	mpiexec ---------------> n1   mpiexec -------> n1 : MARK1, MARK2    n2 is n1
	        WriteMark MARK2             ReadMarks
	        ---------------> n2           -------> n2 : MARK1, MARK2
*/

// checkIdentities finds candidates that report the same machine identity, and tests whether they are one machine with
// several names. It drops a host that falsely reports another machine's identity. If the job needs all candidates, it
// returns an error instead.
func (r *reservation) checkIdentities(ctx context.Context) error {
	var lines []string
	claimed := r.byIdentity()
	for _, identity := range slices.Sorted(maps.Keys(claimed)) {
		alike := slices.DeleteFunc(claimed[identity], func(n *host) bool { return n.lost != nil }) // may be lost since byIdentity
		if len(alike) < 2 || r.alreadyShown(alike) {
			continue
		}
		found, marks, err := r.exchangeMarks(ctx, alike)
		if err != nil {
			return err
		}
		for i, x := range alike {
			for _, y := range alike[i+1:] {
				if line := r.mergeIfSame(x, y, found[x][marks[y]], found[y][marks[x]]); line != "" {
					lines = append(lines, line)
				}
			}
		}
	}
	r.keepHosts(func(n *host) bool { return n.lost != errFalseMachineID })
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

// byIdentity groups the connected candidate hosts by the machine identity that they report.
func (r *reservation) byIdentity() map[string][]*host {
	by := make(map[string][]*host)
	for _, n := range r.connectedCandidates() {
		if identity := n.Node.Probe.Identity; identity != "" {
			by[identity] = append(by[identity], n)
		}
	}
	return by
}

// alreadyShown reports whether an earlier check has proved that the given hosts are one machine.
func (r *reservation) alreadyShown(hosts []*host) bool {
	for _, n := range hosts {
		if !n.ofJob && n.sameMachine != hosts[0] {
			return false
		}
	}
	return true
}

// exchangeMarks asks each host to write a mark (a file with a random name), and to look for the marks of the
// others. A mark that another host can see proves that both are one machine. It returns each host's own mark,
// and the marks that each host found.
func (r *reservation) exchangeMarks(ctx context.Context, hosts []*host) (found map[*host]map[string]bool, marks map[*host]string, err error) {
	tag := rand.Text()
	found, marks = make(map[*host]map[string]bool), make(map[*host]string)
	for _, n := range hosts {
		found[n], marks[n] = make(map[string]bool), rand.Text()
	}
	err = call(ctx, r, r.replyTimeout(), hosts, func(n *host) *wire.WriteMark { return &wire.WriteMark{Tag: tag, Mark: marks[n]} }, func(n *host, written *wire.MarkWritten) {
		if written.Err != "" {
			r.env.Log.Warn().Str("node", n.Name()).Msg("cannot write the file that shows whether two host names are one machine: " + written.Err)
		}
	})
	if err == nil {
		err = call(ctx, r, r.replyTimeout(), hosts, func(*host) *wire.ReadMarks { return &wire.ReadMarks{Tag: tag} }, func(n *host, read *wire.MarksRead) {
			for _, mark := range read.Marks {
				found[n][mark] = true
			}
		})
	}
	return found, marks, err
}

// mergeIfSame treats two hosts as one machine if each has found the other's mark. Otherwise it drops each
// host that has not found the other's mark. It returns a line that reports the dropped hosts, or "".
func (r *reservation) mergeIfSame(x, y *host, xFound, yFound bool) string {
	if x.lost != nil || y.lost != nil {
		return "" // a lost host is reported elsewhere
	}
	if xFound && yFound {
		x.sameMachine = cmp.Or(x.sameMachine, x)
		y.sameMachine = x.sameMachine
		return ""
	}
	line := fmt.Sprintf("%s and %s both report machine ID %s, but are different machines; ", x.Name(), y.Name(), x.Node.Probe.Identity)
	var unused []string
	for _, n := range []struct {
		*host
		found bool
	}{{x, xFound}, {y, yFound}} {
		if n.found || n.ofJob {
			continue
		}
		unused = append(unused, n.Name())
		n.lost = errFalseMachineID
		r.errs[n.Name()] = errFalseMachineID
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

// errFalseMachineID is the reason for dropping a candidate that falsely reports the identity of another
// machine. mergeIfSame has already reported this to the user.
var errFalseMachineID = errors.New("the host is not used, because it reports the machine ID of another host")
