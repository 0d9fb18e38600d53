package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// pollInterval is the interval at which the directory is read if inotify is not available. By default, a user can
// have only 128 inotify instances.
const pollInterval = 250 * time.Millisecond

// minLookInterval is the minimum time between two scans of the directory. After a long scan, the pause is
// lookPauseFactor times the scan's duration. So a user with many changing entries cannot keep a CPU busy.
const (
	minLookInterval = 2 * time.Millisecond
	lookPauseFactor = 4
)

// maxWatchedPerUser is the maximum number of claims of one user that inotify watches. The kernel limits the number of
// watches (fs.inotify.max_user_watches). If a user has more claims, the watcher notices the end of an additional claim
// when its name is removed, or at the next scan.
const maxWatchedPerUser = 256

// fileEvents are the events from which a watcher learns that the process that holds a file has ended. Either the file's
// only descriptor for writing is closed, or the file is deleted because it has no name and no descriptor left.
// dirEvents occur when names are added to a directory or removed from it.
const (
	fileEvents = unix.IN_CLOSE_WRITE | unix.IN_DELETE_SELF | unix.IN_DONT_FOLLOW
	dirEvents  = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR
)

// A watcher is notified by inotify when the processes that hold files end. Without inotify, it reports at
// regular intervals that any file may have changed.
type watcher struct {
	d            *Dir
	fd           int
	queue        *os.File // the inotify descriptor; nil: inotify is not available
	names        map[int32]string
	kind         string        // prefix of the names to report
	lastLookTook time.Duration // duration of the last scan of all claims
}

// changes describes the events that a watcher has received.
type changes struct {
	files   map[string]bool // files whose holders may have ended
	names   bool            // names of the watcher's kind were added or removed
	unknown bool            // anything may have changed
}

func newWatcher(d *Dir) *watcher {
	w := &watcher{d: d, names: make(map[int32]string), kind: kindClaim}
	if d.testWithout.inotify {
		return w
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err == nil {
		w.fd, w.queue = fd, os.NewFile(uintptr(fd), "inotify")
	}
	return w
}

func (w *watcher) close() {
	if w.queue != nil {
		w.queue.Close()
		w.queue = nil
	}
}

// watchEntry begins to watch an entry. It watches the file itself and not the directory, because events for a
// directory contain the name with which a file was opened. This name is empty for a file that was created
// without a name.
func (w *watcher) watchEntry(s entry) {
	if dir, err := w.d.openUserDir(s.userDir); err == nil {
		w.addWatch(dir, "/"+s.base, s.path(), fileEvents)
		unix.Close(dir)
	}
}

// watchDir begins to watch the ledger directory for new user directories.
func (w *watcher) watchDir() { w.addWatch(w.d.dir, "/.", "", dirEvents) }

// watchUserDir begins to watch a user directory for new entries. It returns false if the directory is already
// watched or cannot be watched.
func (w *watcher) watchUserDir(s userDir) bool {
	dir, err := w.d.openUserDir(s)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	n := len(w.names)
	w.addWatch(dir, "/.", s.name+"/", dirEvents)
	return len(w.names) > n
}

func (w *watcher) addWatch(dir int, path, name string, events uint32) {
	if w.queue == nil {
		return
	}
	wd, err := unix.InotifyAddWatch(w.fd, fmt.Sprintf("/proc/self/fd/%d%s", dir, path), events)
	switch err {
	case nil:
		w.names[int32(wd)] = name
	case unix.ENOENT: // gone already; the next scan notices it
	default:
		w.close() // fall back to polling
	}
}

// wait blocks until an event occurs or timeout has passed. It returns an error only if ctx is done.
func (w *watcher) wait(ctx context.Context, timeout time.Duration) (changes, error) {
	if w.queue == nil {
		return changes{unknown: true}, sleep(ctx, min(pollInterval, timeout))
	}
	queue := w.queue
	if err := queue.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		w.close()
		return changes{unknown: true}, ctx.Err()
	}
	stop := context.AfterFunc(ctx, func() { queue.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4096)
	n, err := queue.Read(buf)
	switch {
	case ctx.Err() != nil:
		return changes{}, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return changes{}, nil
	case err != nil:
		w.close()
		return changes{unknown: true}, nil
	}
	return w.parse(buf[:n]), nil
}

// parse decodes inotify events (inotify(7)). Each event consists of watch, mask, cookie, length of the name,
// and the name padded with zeros.
func (w *watcher) parse(buf []byte) changes {
	n := changes{files: make(map[string]bool)}
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf))
		mask := binary.NativeEndian.Uint32(buf[4:])
		size := int(binary.NativeEndian.Uint32(buf[12:]))
		buf = buf[unix.SizeofInotifyEvent:]
		size = min(size, len(buf))
		name := strings.TrimRight(string(buf[:size]), "\x00")
		buf = buf[size:]
		file, known := w.names[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			n.unknown = true
		case mask&unix.IN_IGNORED != 0:
			delete(w.names, wd)
		case !known:
		case strings.HasSuffix(file, "/"):
			n.names = n.names || strings.HasPrefix(name, w.kind)
		case file != "":
			n.files[file] = true
		default:
			n.names = n.names || strings.HasPrefix(name, w.d.prefix)
		}
	}
	return n
}

// waitUnlocked waits until closed files are also unlocked, since the kernel reports a close shortly before it releases
// the lock (__fput in fs/file_table.c). It waits for at most one second in total, because one user can close a thousand
// files.
func (d *Dir) waitUnlocked(ctx context.Context, all []entry) {
	for pause := 20 * time.Microsecond; pause < time.Second; pause *= 2 {
		all = slices.DeleteFunc(all, func(s entry) bool { return !d.isAlive(s) })
		if len(all) == 0 || sleep(ctx, pause) != nil {
			return
		}
	}
}

// Watch calls the function changed once when it begins to watch, and then each time a claim is made or removed on this
// node. It notices changes within milliseconds, even if the process that held a claim was killed. It returns an error
// when ctx is done or the directory can no longer be read.
func (d *Dir) Watch(ctx context.Context, changed func()) error {
	w := newWatcher(d)
	defer w.close()
	w.watchDir()
	var known map[string]entry
	for {
		now, err := d.watchAll(w, known)
		if err != nil {
			return err
		}
		if known == nil || !maps.EqualFunc(known, now, entry.sameFile) {
			changed()
		}
		known = now
		if err := w.waitForClaims(ctx, known); err != nil {
			return err
		}
	}
}

// watchAll returns all valid claims, after it has begun to watch them. watched contains the claims that are already
// watched.
func (d *Dir) watchAll(w *watcher, watched map[string]entry) (map[string]entry, error) {
	for began := time.Now(); ; {
		found, fresh, each := make(map[string]entry), false, make(map[int]int)
		l := d.newReader(nil)
		l.onUserDir = func(s userDir) { fresh = w.watchUserDir(s) || fresh }
		err := l.readKind(kindClaim, func(s entry) {
			if _, err := decodeClaim(s.base, s.uid, s.text); err != nil {
				return
			}
			s.text = nil
			found[s.path()] = s
			if each[s.uid]++; !s.sameFile(watched[s.path()]) && each[s.uid] <= maxWatchedPerUser {
				w.watchEntry(s)
				fresh = true
			}
		})
		if err != nil {
			return nil, err
		}
		if !fresh {
			w.lastLookTook = time.Since(began)
			return found, nil
		}
		watched = found // a claim may have ended before it was watched: look again
	}
}

// waitForClaims waits for a change that may concern claims. known contains the watched claims by path.
func (w *watcher) waitForClaims(ctx context.Context, known map[string]entry) error {
	for {
		n, err := w.wait(ctx, recheckEvery)
		if err != nil {
			return err
		}
		var closed []entry
		for name := range n.files {
			if s, ok := known[name]; ok {
				closed = append(closed, s)
			}
		}
		w.d.waitUnlocked(ctx, closed)
		// A user who changes the directory all the time must not keep us busy.
		if err := sleep(ctx, max(minLookInterval, lookPauseFactor*w.lastLookTook)); err != nil {
			return err
		}
		if n.unknown || n.names || len(n.files) > 0 || n.files == nil {
			return nil
		}
	}
}
