package doctor

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"remshell/job"
	"remshell/show"
	"remshell/text"
)

// Text is the report for people: the hosts, alike ones in one line, then what was found,
// then the sum of it. Lines are folded at a width, but for the command to type next; 0: they are not.
func (r Report) Text(width int) string {
	var b strings.Builder
	line := func(indent int, line string) {
		b.WriteString(strings.Join(text.Fold(line, width, indent), "\n") + "\n")
	}
	rows := r.rows()
	var table [][]string
	column := 0 // in which what is known of hosts begins
	for _, row := range rows {
		names := hosts(row.hosts)
		table = append(table, []string{names, row.what + row.login()})
		column = max(column, utf8.RuneCountInString(names)+2)
	}
	for row := range strings.Lines(text.Columns("", table)) {
		line(column, strings.TrimSuffix(row, "\n"))
	}
	const indent = 9 // of what is said of a finding
	for _, f := range r.Findings {
		b.WriteByte('\n')
		line(indent+2, fmt.Sprintf("%-7s  %s: %s", f.Level, f.where(), show.Clean(f.Text+f.detail.String())))
		for _, reason := range f.Reasons {
			line(indent+4, strings.Repeat(" ", indent+2)+show.Clean(reason))
		}
		if f.Remedy != "" {
			line(indent+2, strings.Repeat(" ", indent)+show.Clean(f.Remedy))
		}
	}
	if len(rows) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(r.sum() + "\n")
	switch {
	case r.Next == "":
	case r.Worst() == Failure:
		b.WriteString("When that is mended, ask again: " + r.Next + "\n")
	default:
		b.WriteString("Next: " + r.Next + "\n")
	}
	return b.String()
}

// where names the hosts of a finding.
func (f Finding) where() string {
	if f.ofJob {
		return "the job"
	}
	if len(f.Hosts) == 0 {
		return "this machine"
	}
	return hosts(f.Hosts)
}

// A row is hosts of which there is the same to tell.
type row struct {
	what     string
	hosts    []string
	from, to time.Duration // of their logins; 0: there was none
}

// rows puts hosts that are alike together, in the order of the first of each.
func (r Report) rows() []row {
	var rows []row
	for _, c := range r.Hosts {
		what := about(c)
		i := slices.IndexFunc(rows, func(r row) bool { return r.what == what })
		if i < 0 {
			i = len(rows)
			rows = append(rows, row{what: what, from: c.Login, to: c.Login})
		}
		rows[i].hosts = append(rows[i].hosts, c.Node)
		rows[i].from, rows[i].to = min(rows[i].from, c.Login), max(rows[i].to, c.Login)
	}
	return rows
}

// login tells how long logins took.
func (r row) login() string {
	from, to := fmt.Sprintf("%.2f", r.from.Seconds()), fmt.Sprintf("%.2f", r.to.Seconds())
	switch {
	case r.to == 0:
		return ""
	case from == to:
		return ", login in " + to + " s"
	}
	return ", login in " + from + " to " + to + " s"
}

// about is what there is to know of a host that is no defect.
func about(c job.Checkup) string {
	if c.Failure.Text != "" {
		return "cannot be used"
	}
	parts := []string{cpus(c)}
	if c.Probe.Memory.Total > 0 {
		parts = append(parts, text.Size(c.Probe.Memory.Total)+" of memory")
	}
	// A speed that was measured is another one each time, and hosts that are alike are told together.
	if t := c.Exam.Traits; t.Speed > 0 && t.Quality != job.Measured {
		parts = append(parts, fmt.Sprintf("%d MHz (%s)", t.Speed, t.Quality))
	}
	if t := c.Exam.Traits; t.Networks != nil {
		parts = append(parts, "networks "+show.Clean(strings.Join(t.Networks, " ")))
	}
	if c.Exam.Shared.Total > 0 {
		parts = append(parts, text.Size(c.Exam.Shared.Total)+" in /dev/shm")
	}
	if c.Exam.Offer != "" {
		offer, why, _ := strings.Cut(c.Exam.Offer, " ")
		parts = append(parts, "the program is offered "+job.Offer(offer).Words()+" "+show.Clean(why))
	}
	if c.Local {
		parts = append(parts, "this machine")
	}
	if jobs := len(c.Page.Claims); jobs > 0 {
		parts = append(parts, text.Count(jobs, "job")+" on it")
	}
	if most := c.Exam.Rules.Most; c.Exam.Rules.Barred == "" && most >= 0 && most < len(c.Probe.Topology.Cores) {
		parts = append(parts, "at most "+text.Count(most, "rank")+" at a time (its administrator's maxproc)")
	}
	if c.Page.Where != "" && c.Page.Err == "" && c.Exam.Ledger.Err == "" { // else a finding says why there are no claims
		// The name behind it has the machine's identity in it, and hosts that are alike are told together.
		parts = append(parts, "claims in "+show.Word(path.Dir(c.Page.Where)))
	}
	return strings.Join(parts, ", ")
}

// cpus tells cores, and threads if there are more of them.
func cpus(c job.Checkup) string {
	cores, threads := len(c.Probe.Topology.Cores), 0
	for _, core := range c.Probe.Topology.Cores {
		threads += len(core.CPUs)
	}
	words := text.Count(cores, "core")
	if threads > cores {
		words += fmt.Sprintf(" with %s", text.Count(threads, "thread"))
	}
	return words
}

// sum is the last line.
func (r Report) sum() string {
	failures, warnings, down := 0, 0, 0
	for _, f := range r.Findings {
		switch f.Level {
		case Failure:
			failures++
		case Warning:
			warnings++
		}
	}
	for _, c := range r.Hosts {
		if c.Failure.Text != "" {
			down++
		}
	}
	if failures+warnings == 0 {
		return text.Count(len(r.Hosts), "host") + ": all fine"
	}
	return fmt.Sprintf("%s, %d reached: %s, %s", text.Count(len(r.Hosts), "host"), len(r.Hosts)-down,
		text.Count(failures, "failure"), text.Count(warnings, "warning"))
}

// A host is one of the report, as programs read it.
type host struct {
	Host       string   `json:"host"`
	Reached    bool     `json:"reached"`
	Hostname   string   `json:"hostname,omitempty"`
	Arch       string   `json:"arch,omitempty"`
	Address    string   `json:"address,omitempty"`
	MTU        int      `json:"mtu,omitempty"`
	Cores      int      `json:"cores"`
	Memory     int64    `json:"memory_bytes"`
	Shared     int64    `json:"dev_shm_bytes"`
	Speed      int      `json:"speed_mhz,omitempty"`
	Quality    string   `json:"speed_quality,omitempty"` // nominal, max or measured
	Networks   []string `json:"networks,omitempty"`
	NetSpeed   int      `json:"network_mbps,omitempty"`
	CPUModel   string   `json:"cpu_model,omitempty"`
	GPUModels  []string `json:"gpu_models,omitempty"`
	Login      float64  `json:"login_seconds"`
	ClockAhead float64  `json:"clock_ahead_seconds"`
	Jobs       int      `json:"jobs"`
	Ledger     string   `json:"ledger,omitempty"` // directory in which jobs learn of one another
}

// JSON is the report for programs, on one line.
func (r Report) JSON() string {
	list := []host{}
	for _, c := range r.Hosts {
		t := c.Exam.Traits
		list = append(list, host{
			Speed: t.Speed, Quality: string(t.Quality), Networks: t.Networks, NetSpeed: t.NetSpeed, CPUModel: t.CPUModel, GPUModels: t.GPUModels,
			Host: c.Node, Reached: c.Failure.Text == "", Hostname: c.Probe.Hostname, Arch: c.Probe.Arch,
			Address: c.Exam.Address, MTU: c.Exam.MTU, Cores: len(c.Probe.Topology.Cores),
			Memory: c.Probe.Memory.Total, Shared: c.Exam.Shared.Total,
			Login: c.Login.Seconds(), ClockAhead: c.Skew.Seconds(), Jobs: len(c.Page.Claims), Ledger: c.Page.Where,
		})
	}
	text, err := json.Marshal(struct {
		Version  int       `json:"version"`
		Verdict  Level     `json:"verdict"`
		Hosts    []host    `json:"hosts"`
		Findings []Finding `json:"findings"`
		Next     string    `json:"next,omitempty"`
	}{1, r.Worst(), list, append([]Finding{}, r.Findings...), r.Next})
	if err != nil { // there is nothing in it that could fail
		panic(err)
	}
	return string(show.JSON(text)) + "\n"
}
