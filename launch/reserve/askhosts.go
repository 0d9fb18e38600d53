package reserve

import (
	"context"
	"time"

	"remshell/job"
	"remshell/usererr"
	"remshell/wire"
)

// A HostReply is the reply of one host to AskHosts. If the host did not reply, Err is the error, without the
// host's name.
type HostReply[Rep any] struct {
	Node  string
	Reply Rep
	Err   error
}

// AskHosts sends a request to each candidate and returns the replies in the order of the candidates. limit is
// how long to wait for each reply. Features use AskHosts for requests about hosts, such as draining a host,
// that do not concern a job.
func AskHosts[Req wire.Request[Rep], Rep any](ctx context.Context, req job.Request, env Env, limit time.Duration, request Req) (replies []HostReply[Rep], err error) {
	req.SkipUnreachable, req.MinNodes = true, 0 // a host that cannot be reached has a row of its own
	ctx, r, done := newQuery(ctx, req, env)
	defer done()
	r.connectAll(ctx, req.Nodes, nil)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	of := make(map[*host]Rep)
	has := make(map[*host]bool)
	err = call(ctx, r, limit, r.hosts, func(*host) Req { return request }, func(n *host, reply Rep) { of[n], has[n] = reply, true })
	if err != nil {
		return nil, err
	}
	for _, def := range req.Nodes {
		one := HostReply[Rep]{Node: def.Name, Err: r.errs[def.Name]}
		if n := r.byName[def.Name]; n != nil {
			if one.Reply = of[n]; !has[n] {
				one.Err = n.lost
			}
			n.Send(&wire.Bye{})
		}
		if one.Err != nil {
			one.Err = &usererr.Error{Text: usererr.Reason(one.Err), Remedy: usererr.Hint(one.Err)}
		}
		replies = append(replies, one)
	}
	return replies, nil
}
