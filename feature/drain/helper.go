//go:build linux

package drain

import (
	"context"
	"errors"
	"time"

	"remshell/config"
	"remshell/helper"
	"remshell/helper/probe"
	"remshell/job"
)

// lockTimeout is how long a helper waits for other processes that are changing the settings.
const lockTimeout = 10 * time.Second

func init() {
	helper.Register(helper.Feature{Name: "drain", Attach: func(s *helper.Session) {
		helper.Handle(s, func(m *Change) {
			go func() { s.Send(m.applyToFile(config.StateFile)) }() // the lock, the disk or a directory service may be slow
		})
	}})
}

// applyToFile applies the change to the given file and returns the reply.
func (m *Change) applyToFile(file string) *Changed {
	ctx, done := context.WithTimeout(context.Background(), lockTimeout)
	defer done()
	terms, _, _ := probe.GangTerms(config.ClusterFile, file)
	settings, err := probe.ChangeState(ctx, file, func(s job.NodeSettings) (job.NodeSettings, error) {
		return m.apply(s, time.Now(), probe.UserIDs(), terms.Slice)
	})
	switch {
	case errors.Is(err, probe.ErrNotRoot):
		return &Changed{NotRoot: true}
	case err != nil:
		return &Changed{Err: err.Error()}
	}
	return &Changed{Settings: settings}
}
