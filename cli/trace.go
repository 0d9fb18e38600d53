package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/fault"
	"remshell/show"
	"remshell/timeline"
	"remshell/userfile"
)

// This file writes what a run did when: --trace and --trace-svg.

// trace begins the timeline of a run, if there is one, and returns who writes it when the run is over, also where it
// has failed before it began.
func (c *call) trace() (ended func(error), err error) {
	j := c.line.Job
	for _, f := range []struct{ option, name string }{{"--trace", j.TraceFile}, {"--trace-svg", j.TracePicture}} {
		if f.name == "" {
			continue
		}
		if err := mayBeWritten(f.name, true); err != nil {
			return nil, &fault.Error{Text: fmt.Sprintf("%s: %v", f.option, err), Remedy: cmp.Or(fault.Hint(err), "name a file that can be written")}
		}
	}
	if err := twice(j.TraceFile, "--trace", j.TracePicture, "--trace-svg", j.ReportFile, "--report", j.SaveJob, "--save-job", j.JSON, "--json"); err != nil {
		return nil, err
	}
	c.asking = c.env.Timeline.Begin(timeline.Row{}, timeline.Request)
	return func(err error) {
		c.asking.End(err)
		if j.TraceFile == "" && j.TracePicture == "" {
			return
		}
		t := c.env.Timeline.Trace()
		t.Title = c.req.Command()
		c.writeTimeline("--trace", j.TraceFile, t, func(w io.Writer, t timeline.Trace) error {
			return timeline.Chrome(w, t, show.JSON)
		})
		c.writeTimeline("--trace-svg", j.TracePicture, t, timeline.SVG)
	}, nil
}

// twice refuses files that two options would write, of which one would replace what the other has written. It takes files
// and their options in turns.
func twice(words ...string) error {
	of := make(map[string]string)
	for pair := range slices.Chunk(words, 2) {
		name, option := pair[0], pair[1]
		if name == "" || name == "-" && option == "--json" {
			continue
		}
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			continue // nothing is replaced there
		}
		if target, err := filepath.EvalSymlinks(name); err == nil {
			name = target
		}
		name, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		if other := of[name]; other != "" {
			return &fault.Error{Text: fmt.Sprintf("%s and %s would both write %s", other, option, pair[0]), Remedy: "give each a file of its own"}
		}
		of[name] = option
	}
	return nil
}

// writeTimeline writes a trace to a file of its own, and says what cannot be written: the run's own printer is closed
// by now.
func (c *call) writeTimeline(option, name string, t timeline.Trace, write func(io.Writer, timeline.Trace) error) {
	if name == "" {
		return
	}
	if err := wholeFile(name, func(w io.Writer) error { return write(w, t) }); err != nil {
		c.sys.screen(c.sys.Err, c.line.Job).report(fmt.Errorf("%s: %w", option, err))
	}
}

// mayBeWritten says why a file could not be written later, or replaced by another one; nil: it looks as if it could.
func mayBeWritten(name string, replaced bool) error {
	path, err := userfile.Target(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &os.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe, a device
	case err != nil || replaced:
		path = filepath.Dir(path)
	}
	if err := unix.Access(path, unix.W_OK); err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}

// wholeFile writes a file that who reads it has whole or not at all; what is no plain file is written as it is.
func wholeFile(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeFile(name, write)
	}
	return replaceFile(name, write)
}
