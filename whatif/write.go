package whatif

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/plan"
	"remshell/psi"
)

// Write writes an outcome as one JSON object (9.2). It is written by hand, since a
// plan may have a million ranks.
func Write(w io.Writer, o Outcome) error {
	p := &printer{w: w}
	p.text("{\n  \"version\": 1,\n")
	var input *psi.Error
	var failed *plan.Error
	switch {
	case errors.As(o.Err, &input):
		p.input(input)
	case errors.As(o.Err, &failed) && failed.Position > 0:
		p.text("  \"queued\": {\"code\": ").quote(failed.Code).text(", \"message\": ").quote(failed.Text)
		p.text(", \"position\": ").number(failed.Position)
		if failed.Code == plan.Delayed {
			p.text(", \"retry_in\": ").number(int((failed.Left + time.Second - 1) / time.Second))
		}
		p.text("},\n")
	case failed != nil:
		p.failure(failed.Code, failed.Text, failed.Permanent)
		p.text(", \"variable\": null, \"token\": null, \"allowed\": null},\n")
	default:
		p.ranks(o.Plan)
		p.text("  \"order\": ").quotes(o.Plan.Order).text(",\n  \"tpp\": ").number(o.Threads)
		p.text(",\n  \"sort\": ").quote(o.Plan.Sort)
		p.text(",\n  \"exclusive\": ").flag(o.Plan.Exclusive)
		p.text(",\n  \"overbooked\": ").flag(o.Plan.Overbooked).text(",\n")
		if o.Plan.Choice != nil {
			p.text("  \"choice\": ").text(choiceJSON(o.Plan.Choice)).text(",\n")
		}
	}
	p.rm(o.Request.RM)
	p.rejected(o.Plan.Rejected)
	p.warnings(o.Warnings)
	p.text("}\n")
	p.flush()
	return p.err
}

// A printer gathers text and writes it in large pieces.
type printer struct {
	w   io.Writer
	buf []byte
	err error
}

func (p *printer) flush() {
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

func (p *printer) text(s string) *printer {
	p.buf = append(p.buf, s...)
	return p
}

func (p *printer) number(n int) *printer {
	p.buf = strconv.AppendInt(p.buf, int64(n), 10)
	return p
}

func (p *printer) flag(b bool) *printer {
	p.buf = strconv.AppendBool(p.buf, b)
	return p
}

// quoted is a text in JSON; "<" stays as it is, since this is not for a web page.
func quoted(s string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func (p *printer) quote(s string) *printer {
	p.buf = append(p.buf, quoted(s)...)
	return p
}

// numbers writes a list; nil is null.
func (p *printer) numbers(list []int) *printer {
	if list == nil {
		return p.text("null")
	}
	p.text("[")
	for i, n := range list {
		if i > 0 {
			p.text(", ")
		}
		p.number(n)
	}
	return p.text("]")
}

func (p *printer) quotes(list []string) *printer {
	p.text("[")
	for i, s := range list {
		if i > 0 {
			p.text(", ")
		}
		p.quote(s)
	}
	return p.text("]")
}

// ranks writes one rank a line, in the order of their numbers.
func (p *printer) ranks(of job.Plan) {
	type place struct {
		rank *job.RankPlan
		node int
	}
	places := make([]place, of.Size)
	names := make([]string, len(of.Nodes))
	for n := range of.Nodes {
		names[n] = `, "node": ` + quoted(of.Nodes[n].Name) + `, "id": ` + strconv.Itoa(of.Nodes[n].ID)
		for i := range of.Nodes[n].Ranks {
			r := &of.Nodes[n].Ranks[i]
			places[r.Rank] = place{r, n}
		}
	}
	p.text("  \"ranks\": [\n")
	for i, at := range places {
		p.text(`    {"rank": `).number(i).text(names[at.node]).text(`, "slots": `).numbers(slots(at.rank))
		p.text(`, "cpus": `).numbers(at.rank.CPUs).text(`, "mems": `).numbers(at.rank.Mems).gpus(at.rank.GPUs).text("}")
		if i < len(places)-1 {
			p.text(",")
		}
		p.text("\n")
		if len(p.buf) > 1<<16 {
			p.flush()
		}
	}
	p.text("  ],\n")
}

// gpus writes those of a rank that has any.
func (p *printer) gpus(gpus []gpu.GPU) *printer {
	for i, g := range gpus {
		p.text([]string{`, "gpus": [`, ", "}[min(i, 1)])
		p.text(`{"vendor": `).quote(string(g.Vendor)).text(`, "index": `).number(g.Index)
		p.text(`, "address": `).quote(g.Address).text("}")
	}
	if gpus != nil {
		p.text("]")
	}
	return p
}

// slots are those of a rank: a list also when a node has none to give.
func slots(r *job.RankPlan) []int {
	if r.Slots == nil {
		return []int{}
	}
	return r.Slots
}

// input writes an error of what was said.
func (p *printer) input(e *psi.Error) {
	p.failure(e.Code, e.Error(), true)
	if e.Source == "" {
		p.text(", \"variable\": null, \"token\": null")
	} else {
		p.text(", \"variable\": ").quote(e.Source).text(", \"token\": ").quote(e.Token)
	}
	p.text(", \"allowed\": ")
	if e.Code == "bad-state" {
		p.text("null")
	} else {
		p.quotes(e.Allowed)
	}
	p.text("},\n")
}

func (p *printer) failure(code, message string, permanent bool) {
	p.text("  \"error\": {\"code\": ").quote(code).text(", \"message\": ").quote(message)
	p.text(", \"permanent\": ").flag(permanent)
}

// rm writes whose hosts these are (RM-5), if they are a batch system's.
func (p *printer) rm(of *job.RM) {
	if text, err := json.Marshal(of); of != nil && err == nil {
		p.text("  \"rm\": ").text(string(text)).text(",\n")
	}
}

func (p *printer) rejected(notes []job.Note) {
	p.text("  \"rejected\": [")
	for i, n := range notes {
		p.comma(i).text(`{"node": `).quote(n.Node).text(`, "id": `).number(n.ID)
		p.text(`, "reason": `).quote(n.Code).text(`, "detail": `).quote(n.Text).text("}")
	}
	p.text("],\n")
}

func (p *printer) warnings(notes []job.Note) {
	p.text("  \"warnings\": [")
	for i, n := range notes {
		p.comma(i).text(`{"code": `).quote(n.Code).text(`, "node": `)
		if n.Node == "" {
			p.text("null")
		} else {
			p.quote(n.Node)
		}
		p.text(`, "message": `).quote(n.Text).text("}")
	}
	p.text("]\n")
}

// comma begins the i-th object of a list on a line of its own.
func (p *printer) comma(i int) *printer {
	if i > 0 {
		p.text(",")
	}
	return p.text("\n    ")
}
