package launch

import (
	"context"
	"time"

	"remshell/job"
	"remshell/wire"
)

// Look reaches the candidates as Run does, hears what their helpers found, and lets
// them go. The options that only tell use it.
func Look(ctx context.Context, req job.Request, env Env) (job.Snapshot, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchSignals(env, cancel)
	starting, done := context.WithDeadlineCause(ctx, time.Now().Add(startLimit(req)), lateError(req))
	defer done()
	fleet, snap, err := muster(starting, req, env, newBox())
	defer fleet.close()
	if err != nil {
		return snap, err
	}
	for _, n := range fleet.all {
		n.conn.Send(&wire.Bye{})
	}
	env.seen(snap)
	return snap, nil
}

func (e Env) seen(snap job.Snapshot) {
	if e.Seen != nil {
		e.Seen(snap)
	}
}
