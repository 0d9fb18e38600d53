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

// pollInterval is how often to look where the kernel does not tell: it has 128 inotify instances
// for a user by default.
const pollInterval = 250 * time.Millisecond

// minLookInterval is the least time between two looks; after one that took long there are restsFor times as much. A user who has much to
// read, and changes it all the time, does not have a CPU for himself by that.
const (
	minLookInterval = 2 * time.Millisecond
	lookPauseFactor = 4
)

// maxWatchedPerUser is how many claims of a user are watched one by one: a user may watch only some thousands of files himself
// (fs.inotify.max_user_watches). The end of others is seen when their names go, or at the next look.
const maxWatchedPerUser = 256

// fileEvents come when a file's holder ends: its only descriptor that may write is closed,
// or its last name and descriptor go. dirEvents come when names do.
const (
	fileEvents = unix.IN_CLOSE_WRITE | unix.IN_DELETE_SELF | unix.IN_DONT_FOLLOW
	dirEvents  = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_ONLYDIR
)

// A watcher learns from the kernel when holders of files end. Without inotify it looks at
// everything now and then.
type watcher struct {
	d            *Dir
	fd           int
	queue        *os.File // of inotify; nil: we are blind
	names        map[int32]string
	kind         string        // of the names that matter
	lastLookTook time.Duration // the last look at all claims
}

// changes is what has happened.
type changes struct {
	files   map[string]bool // files whose holders may have ended
	names   bool            // such came, or went, as matter
	unknown bool            // anything may have
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

// watchEntry watches one entry. It watches the file itself and not its directory, which may
// know it by another name or by none if it began as one without.
func (w *watcher) watchEntry(s entry) {
	if dir, err := w.d.openUserDir(s.userDir); err == nil {
		w.addWatch(dir, "/"+s.base, s.path(), fileEvents)
		unix.Close(dir)
	}
}

// watchDir watches the directory for new shelves.
func (w *watcher) watchDir() { w.addWatch(w.d.dir, "/.", "", dirEvents) }

// watchUserDir watches a shelf for new entries; false: it was watched before, or cannot be.
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
	case unix.ENOENT: // gone already: who looks next will see
	default:
		w.close() // of what cannot be watched we would never hear
	}
}

// wait blocks until something happens, at most for a while. It fails only if ctx ends.
func (w *watcher) wait(ctx context.Context, atMost time.Duration) (changes, error) {
	if w.queue == nil {
		return changes{unknown: true}, sleep(ctx, min(pollInterval, atMost))
	}
	queue := w.queue
	if err := queue.SetReadDeadline(time.Now().Add(atMost)); err != nil {
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

// parse reads events as inotify(7) has them: watch, mask, cookie, length of the name, and
// the name with zeros up to that length.
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

// waitUnlocked waits until files whose holders have closed them are unlocked too. The kernel tells
// of the close a little before it drops the lock (__fput in fs/file_table.c). What stays
// locked, somebody else has closed. All files together have a second: one user can close a thousand.
func (d *Dir) waitUnlocked(ctx context.Context, all []entry) {
	for pause := 20 * time.Microsecond; pause < time.Second; pause *= 2 {
		all = slices.DeleteFunc(all, func(s entry) bool { return !d.isAlive(s) })
		if len(all) == 0 || sleep(ctx, pause) != nil {
			return
		}
	}
}

// Watch calls changed when it has begun to watch, and then each time claims came or went
// on this node, within milliseconds, also when their holder was killed. It returns when
// ctx ends, with its error, or when the directory cannot be read any more.
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

// watchAll lists the living claims after all of them are watched.
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
		watched = found // one may have ended before it was watched: look once more
	}
}

// waitForClaims waits for something that concerns claims.
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
		// Who fills the directory does not keep us busy.
		if err := sleep(ctx, max(minLookInterval, lookPauseFactor*w.lastLookTook)); err != nil {
			return err
		}
		if n.unknown || n.names || len(n.files) > 0 || n.files == nil {
			return nil
		}
	}
}
