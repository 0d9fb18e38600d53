package cli

import (
	"os"
	"time"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/job"
)

// While a request waits it stays what it was: flags, variables and host files are read
// once. Only the cluster file is looked at again, before each attempt (placement.md 6.1,
// 6.5).

// reread returns what launch.Env.Again wants; nil for a request that does not wait, or
// knows no cluster file.
func reread(line option.Line, sys System, w request.World, first job.Request) func() (job.Request, bool, error) {
	if w.Cluster == nil || !first.Wait {
		return nil
	}
	read := modified(w.Cluster.File)
	return func() (job.Request, bool, error) {
		now := modified(w.Cluster.File)
		if now.Equal(read) {
			return first, false, nil
		}
		read = now
		site, err := cluster(line.Job, sys.getenv, reader(sys))
		if err != nil {
			return first, false, err
		}
		w.Cluster = site
		req, _, err := request.Make(line, w)
		if err != nil {
			return first, false, err
		}
		req.Job, req.Soft, req.Streams, req.Parcels = first.Job, first.Soft, first.Streams, first.Parcels
		for i := range req.Apps {
			req.Apps[i].Staged = first.Apps[i].Staged
		}
		return req, true, nil
	}
}

// modified is when a file was changed; the zero time if it is not there.
func modified(file string) time.Time {
	info, err := os.Stat(file)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
