package simulate

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/job/turns"
	"remshell/plan"
	"remshell/psi"
)

// Write writes an outcome as one JSON object (placement.md 9.2). It does not use encoding/json, because that is slow
// for a plan with a million ranks.
func Write(w io.Writer, o Outcome) error {
	p := &jsonWriter{w: w}
	p.writeText("{\n  \"version\": 1,\n")
	var input *psi.Error
	var failed *plan.Error
	switch {
	case errors.As(o.Err, &input):
		p.writeInputError(input)
	case errors.As(o.Err, &failed) && failed.QueuePosition > 0:
		p.writeText("  \"queued\": {\"code\": ").writeString(failed.Code).writeText(", \"message\": ").writeString(failed.Text)
		p.writeText(", \"position\": ").writeNumber(failed.QueuePosition)
		if failed.Code == plan.CodeDelayed {
			p.writeText(", \"retry_in\": ").writeNumber(int((failed.DelayLeft + time.Second - 1) / time.Second))
		}
		p.writeText("},\n")
	case failed != nil:
		p.writeError(failed.Code, failed.Text, failed.Permanent)
		p.writeText(", \"variable\": null, \"token\": null, \"allowed\": null},\n")
	default:
		p.writeRanks(o.Plan)
		p.writeText("  \"order\": ").writeStrings(o.Plan.FillOrder).writeText(",\n  \"tpp\": ").writeNumber(o.Threads)
		p.writeText(",\n  \"sort\": ").writeString(o.Plan.Sort)
		p.writeText(",\n  \"exclusive\": ").writeBool(o.Plan.Exclusive)
		p.writeText(",\n  \"overbooked\": ").writeBool(o.Plan.Overbooked).writeText(",\n")
		p.writeGang(o.Plan)
		if o.Plan.Choice != nil {
			p.writeText("  \"choice\": ").writeText(choiceJSON(o.Plan.Choice)).writeText(",\n")
		}
	}
	p.writeRM(o.Request.RM)
	p.writeRejected(o.Plan.Rejected)
	p.writeWarnings(o.Warnings)
	p.writeText("}\n")
	p.flush()
	return p.err
}

// A jsonWriter collects the output and writes it in large pieces.
type jsonWriter struct {
	w   io.Writer
	buf []byte
	err error
}

func (p *jsonWriter) flush() {
	if p.err == nil {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

func (p *jsonWriter) writeText(s string) *jsonWriter {
	p.buf = append(p.buf, s...)
	return p
}

func (p *jsonWriter) writeNumber(n int) *jsonWriter {
	p.buf = strconv.AppendInt(p.buf, int64(n), 10)
	return p
}

func (p *jsonWriter) writeBool(b bool) *jsonWriter {
	p.buf = strconv.AppendBool(p.buf, b)
	return p
}

// jsonString returns s as a JSON string. It does not escape "<", since the output is not part of a web page.
func jsonString(s string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

func (p *jsonWriter) writeString(s string) *jsonWriter {
	p.buf = append(p.buf, jsonString(s)...)
	return p
}

// writeNumbers writes a list of numbers. It writes null for a nil list.
func (p *jsonWriter) writeNumbers(list []int) *jsonWriter {
	if list == nil {
		return p.writeText("null")
	}
	p.writeText("[")
	for i, n := range list {
		if i > 0 {
			p.writeText(", ")
		}
		p.writeNumber(n)
	}
	return p.writeText("]")
}

func (p *jsonWriter) writeStrings(list []string) *jsonWriter {
	p.writeText("[")
	for i, s := range list {
		if i > 0 {
			p.writeText(", ")
		}
		p.writeString(s)
	}
	return p.writeText("]")
}

// writeRanks writes the ranks of a plan, one on each line, in ascending order.
func (p *jsonWriter) writeRanks(jobPlan job.Plan) {
	type rankOnNode struct {
		rank *job.RankPlan
		node int
	}
	ranks := make([]rankOnNode, jobPlan.Size)
	names := make([]string, len(jobPlan.Nodes))
	for n := range jobPlan.Nodes {
		names[n] = `, "node": ` + jsonString(jobPlan.Nodes[n].Name) + `, "id": ` + strconv.Itoa(jobPlan.Nodes[n].ID)
		for i := range jobPlan.Nodes[n].Ranks {
			r := &jobPlan.Nodes[n].Ranks[i]
			ranks[r.Rank] = rankOnNode{r, n}
		}
	}
	p.writeText("  \"ranks\": [\n")
	for i, at := range ranks {
		p.writeText(`    {"rank": `).writeNumber(i).writeText(names[at.node]).writeText(`, "slots": `).writeNumbers(rankSlots(at.rank))
		p.writeText(`, "cpus": `).writeNumbers(at.rank.CPUs).writeText(`, "mems": `).writeNumbers(at.rank.Mems).writeGPUs(at.rank.GPUs).writeText("}")
		if i < len(ranks)-1 {
			p.writeText(",")
		}
		p.writeText("\n")
		if len(p.buf) > 1<<16 {
			p.flush()
		}
	}
	p.writeText("  ],\n")
}

// writeGPUs writes the GPUs of a rank. It writes nothing if the rank has none.
func (p *jsonWriter) writeGPUs(gpus []gpu.GPU) *jsonWriter {
	for i, g := range gpus {
		p.writeText([]string{`, "gpus": [`, ", "}[min(i, 1)])
		p.writeText(`{"vendor": `).writeString(string(g.Vendor)).writeText(`, "index": `).writeNumber(g.Index)
		p.writeText(`, "address": `).writeString(g.Address).writeText("}")
	}
	if gpus != nil {
		p.writeText("]")
	}
	return p
}

// rankSlots returns the slots of the node that a rank occupies. If there are none, it returns an empty list that is not
// nil, which JSON writes as [].
func rankSlots(r *job.RankPlan) []int {
	if r.Slots == nil {
		return []int{}
	}
	return r.Slots
}

// writeInputError writes an error in the user's input.
func (p *jsonWriter) writeInputError(e *psi.Error) {
	p.writeError(e.Code, e.Error(), true)
	if e.Source == "" {
		p.writeText(", \"variable\": null, \"token\": null")
	} else {
		p.writeText(", \"variable\": ").writeString(e.Source).writeText(", \"token\": ").writeString(e.Token)
	}
	p.writeText(", \"allowed\": ")
	if e.Code == "bad-state" {
		p.writeText("null")
	} else {
		p.writeStrings(e.Allowed)
	}
	p.writeText("},\n")
}

func (p *jsonWriter) writeError(code, message string, permanent bool) {
	p.writeText("  \"error\": {\"code\": ").writeString(code).writeText(", \"message\": ").writeString(message)
	p.writeText(", \"permanent\": ").writeBool(permanent)
}

// writeRM writes which batch system has allocated the hosts (rule RM-5). It writes nothing if rm is nil.
func (p *jsonWriter) writeRM(rm *job.RM) {
	if text, err := json.Marshal(rm); rm != nil && err == nil {
		p.writeText("  \"rm\": ").writeText(string(text)).writeText(",\n")
	}
}

// writeGang writes how the job would take turns with other jobs on shared CPUs. It writes nothing if the job is not
// a gang.
func (p *jsonWriter) writeGang(of job.Plan) {
	if of.Gang == nil {
		return
	}
	if text, err := json.Marshal(turns.NewView(*of.Gang, of.GangCompetitors)); err == nil {
		p.writeText("  \"gang\": ").writeText(string(text)).writeText(",\n")
	}
}

func (p *jsonWriter) writeRejected(notes []job.Note) {
	p.writeText("  \"rejected\": [")
	for i, n := range notes {
		p.startItem(i).writeText(`{"node": `).writeString(n.Node).writeText(`, "id": `).writeNumber(n.ID)
		p.writeText(`, "reason": `).writeString(n.Code).writeText(`, "detail": `).writeString(n.Text).writeText("}")
	}
	p.writeText("],\n")
}

func (p *jsonWriter) writeWarnings(notes []job.Note) {
	p.writeText("  \"warnings\": [")
	for i, n := range notes {
		p.startItem(i).writeText(`{"code": `).writeString(n.Code).writeText(`, "node": `)
		if n.Node == "" {
			p.writeText("null")
		} else {
			p.writeString(n.Node)
		}
		p.writeText(`, "message": `).writeString(n.Text).writeText("}")
	}
	p.writeText("]\n")
}

// startItem starts element i of a list of objects on a new line.
func (p *jsonWriter) startItem(i int) *jsonWriter {
	if i > 0 {
		p.writeText(",")
	}
	return p.writeText("\n    ")
}
