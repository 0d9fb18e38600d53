package pmix

import (
	"fmt"
	"strings"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// traceRequest shows what a client says, if anybody looks (PMIX-25).
func (c *client) traceRequest(r message.Request) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "< "+describe(r))
	}
}

// traceReply shows what it is answered.
func (c *client) traceReply(to, answer string) {
	if c.group.Trace != nil {
		c.group.Trace(c.rank.number, "> "+to+" "+answer)
	}
}

// describe tells what a request says, without the values of keys.
func describe(request message.Request) string {
	switch r := request.(type) {
	case *message.Abort:
		return fmt.Sprintf("ABORT %d %q", r.Code, r.Message)
	case *message.Commit:
		keys := 0
		for _, p := range r.Parts {
			keys += len(p.Keys)
		}
		return fmt.Sprintf("COMMIT %d keys", keys)
	case *message.Fence:
		text := "FENCE " + describeProcs(r.Procs)
		if r.Options.Collect() {
			text += " collect"
		}
		return text
	case *message.Get:
		text := fmt.Sprintf("GET %s %s", describeProcs([]bfrops.Proc{{Namespace: r.Namespace, Rank: r.Rank}}), r.Key)
		if r.Options.Immediate() {
			text += " immediate"
		}
		return text
	}
	return nameOf(request)
}

// nameOf is what a request is called on the page: FENCE.
func nameOf(request message.Request) string {
	name := fmt.Sprintf("%T", request)
	return strings.ToUpper(name[strings.LastIndexByte(name, '.')+1:])
}

// describeProcs lists processes, without the random digits of their namespaces.
func describeProcs(procs []bfrops.Proc) string {
	const most = 8
	var words []string
	for _, p := range procs[:min(len(procs), most)] {
		rank := fmt.Sprint(p.Rank)
		if p.Rank == bfrops.Wildcard {
			rank = "*"
		}
		words = append(words, public(p.Namespace)+":"+rank)
	}
	if len(procs) > most {
		words = append(words, fmt.Sprintf("and %d more", len(procs)-most))
	}
	return "[" + strings.Join(words, " ") + "]"
}

// public is a namespace without its secret: rs-..-1.
func public(namespace string) string {
	first, last := strings.IndexByte(namespace, '-'), strings.LastIndexByte(namespace, '-')
	if first == last {
		return namespace
	}
	return namespace[:first+1] + ".." + namespace[last:]
}
