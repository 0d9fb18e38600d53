package selftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"remshell/text"
)

// A Step is how far a rank has come.
type Step string

const (
	Started Step = "started" // it has its streams, and the address of the next rank by PMI
	Linked  Step = "linked"  // it has tried to connect to the next rank
	Done    Step = "done"    // it had SIGUSR1 and has passed the token on
)

// A Report is what a rank says of a step.
type Report struct {
	Step       Step
	Rank, Size int
	Host       string
	Err        string        `json:",omitempty"` // what went wrong
	Peer       string        `json:",omitempty"` // host of the next rank; empty: the rank itself cannot listen
	Address    string        `json:",omitempty"` // of the next rank, or at which it cannot listen
	Input      string        `json:",omitempty"` // what rank 0 has read
	Took       time.Duration `json:",omitempty"` // of rank 0: the exchange by PMI, the ring
}

// reportPrefix begins the line of a report, behind any label.
const reportPrefix = "mpiexec-selftest "

// Input is what rank 0 has to read.
const Input = "selftest"

// maxReportBytes bounds a line of a report; mostRanks, the ranks of which reports are kept.
const (
	maxReportBytes = 4 << 10
	maxRanks       = 1 << 20
)

// Results are what the ranks have reported. They read standard output of the job.
type Results struct {
	linked chan bool

	mu        sync.Mutex // guards what follows
	line      []byte
	began     time.Time
	startTime time.Duration // until the last rank had started
	size      int
	reports   map[Step]map[int]Report
}

// NewResults returns those of a job that begins now.
func NewResults() *Results {
	return &Results{linked: make(chan bool, 1), began: time.Now(), reports: map[Step]map[int]Report{Started: {}, Linked: {}, Done: {}}}
}

// Linked sends once, when each rank has tried to reach the next one: true if all could.
func (r *Results) Linked() <-chan bool { return r.linked }

// Write takes in what the ranks write. It never fails.
func (r *Results) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		r.line = append(r.line, piece[:min(len(piece), maxReportBytes-len(r.line))]...)
		if rest = after; ended {
			r.readReport(string(r.line))
			r.line = r.line[:0]
		}
	}
	return len(p), nil
}

// readReport takes in a line, if it is a report.
func (r *Results) readReport(line string) {
	_, value, marked := strings.Cut(line, reportPrefix)
	var report Report
	if !marked || json.Unmarshal([]byte(value), &report) != nil {
		return
	}
	known := r.reports[report.Step]
	if known == nil || report.Rank < 0 || report.Rank >= report.Size || report.Size > maxRanks || r.size > 0 && report.Size != r.size {
		return
	}
	r.size = report.Size
	if _, twice := known[report.Rank]; twice {
		return
	}
	known[report.Rank] = report
	switch {
	case len(known) < r.size:
	case report.Step == Started:
		r.startTime = time.Since(r.began)
	case report.Step == Linked:
		r.linked <- len(r.failures()) == 0
	}
}

// failures lists, a line each, the ranks that did not reach the next one.
func (r *Results) failures() (lines []string) {
	for rank := range r.size {
		report, there := r.reports[Linked][rank]
		at := ""
		if report.Address != "" {
			at = " at " + report.Address
		}
		switch {
		case !there || report.Err == "":
		case report.Peer == "":
			lines = append(lines, fmt.Sprintf("%s: rank %d cannot listen%s: %s", report.Host, rank, at, report.Err))
		default:
			lines = append(lines, fmt.Sprintf("%s: rank %d cannot connect to rank %d on %s%s: %s", report.Host, rank, (rank+1)%r.size, report.Peer, at, report.Err))
		}
	}
	return lines
}

// An Error is why a self-test has failed, although its ranks exited with 0.
type Error struct {
	Text, Remedy string
	Lines        []string
}

func (e *Error) Error() string     { return e.Text }
func (e *Error) Hint() string      { return e.Remedy }
func (e *Error) Reasons() []string { return e.Lines }

// maxFailureLines is how many failures are listed.
const maxFailureLines = 20

// Err is nil if all went well.
func (r *Results) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed := r.failures(); len(failed) > 0 {
		lines := failed[:min(len(failed), maxFailureLines)]
		if more := len(failed) - len(lines); more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more", more))
		}
		return &Error{Text: "selftest: ranks cannot connect to each other by TCP",
			Remedy: "MPI needs that: open the ports between the hosts in their firewalls, or name another network with -iface; mpiexec --doctor HOSTS looks closer", Lines: lines}
	}
	for rank := range r.size {
		if report := r.reports[Done][rank]; report.Err != "" {
			return &Error{Text: fmt.Sprintf("selftest: %s: rank %d: the token: %s", report.Host, rank, report.Err), Remedy: "try again; mpiexec --doctor HOSTS looks at the network"}
		}
	}
	if got := r.reports[Started][0].Input; r.size > 0 && got != Input {
		return &Error{Text: fmt.Sprintf("selftest: rank 0 read %q from its standard input, not %q", got, Input)}
	}
	if r.size == 0 || len(r.reports[Done]) < r.size {
		return &Error{Text: fmt.Sprintf("selftest: the output of ranks did not come: %d of %d have reported their end", len(r.reports[Done]), r.size)}
	}
	return nil
}

// Hosts are those of the ranks, each once, in the order of ranks.
func (r *Results) Hosts() (hosts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]bool)
	for rank := range r.size {
		if host := r.reports[Started][rank].Host; !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Text says what went well; on names the hosts.
func (r *Results) Text(on string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("selftest passed: %s on %s\n  start %s, PMI exchange %s, ring over TCP %s; standard input, output and signals work\n",
		text.Count(r.size, "rank"), on, durationText(r.startTime), durationText(r.reports[Started][0].Took), durationText(r.reports[Done][0].Took))
}

// durationText is a time in milliseconds, or in seconds from one on.
func durationText(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
}
