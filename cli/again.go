package cli

import (
	"bytes"
	"io"
	"os"
	"time"

	"remshell/cli/option"
	"remshell/job"
)

// While a request waits it stays what it was: flags, variables and host files are read
// once. Only the cluster file is looked at again, before each attempt (placement.md 6.1,
// 6.5).

// again returns what launch.Env.Again wants; nil for a request that does not wait, or
// knows no cluster file.
func again(line option.Line, sys System, sc scene, first job.Request) func() (job.Request, bool, error) {
	if sc.site == nil || !first.Wait {
		return nil
	}
	read := modified(sc.site.File)
	return func() (job.Request, bool, error) {
		now := modified(sc.site.File)
		if now.Equal(read) {
			return first, false, nil
		}
		read = now
		site, err := cluster(line.Job, sys.getenv, reader(sys))
		if err != nil {
			return first, false, err
		}
		sc.site = site
		req, _, err := request(line, sc)
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

// remembering opens each file once, and what it held then again later.
func remembering(open func(string) (io.ReadCloser, error)) func(string) (io.ReadCloser, error) {
	texts := make(map[string][]byte)
	return func(name string) (io.ReadCloser, error) {
		text, known := texts[name]
		if !known {
			f, err := open(name)
			if err != nil {
				return nil, err
			}
			defer f.Close()
			if text, err = io.ReadAll(f); err != nil {
				return nil, err
			}
			texts[name] = text
		}
		return io.NopCloser(bytes.NewReader(text)), nil
	}
}
