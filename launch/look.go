package launch

import (
	"context"

	"remshell/job"
)

// Look reaches the candidates as Run does, hears what their helpers found, and lets
// them go. The options that only tell use it.
func Look(ctx context.Context, req job.Request, env Env) (snap job.Snapshot, err error) {
	err = visit(ctx, req, env, func(ctx context.Context, b *booking) error {
		defer b.tellNotices()
		if err := b.survey(ctx); err != nil {
			return err
		}
		err := b.countWaiting(ctx)
		snap = b.snap
		b.saySkipped()
		return err
	})
	if err == nil {
		env.seen(snap)
	}
	return snap, err
}

func (e Env) seen(snap job.Snapshot) {
	if e.Seen != nil {
		e.Seen(snap)
	}
}
