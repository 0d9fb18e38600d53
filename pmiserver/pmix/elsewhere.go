package pmix

import "context"

// Elsewhere knows the groups of the job that have no ranks on this node: parents and children of
// those that are here, and whom these connect to.
type Elsewhere interface {
	// Space returns the namespace of a group of the job.
	Space(group string) string

	// Find asks mpiexec for the group of a namespace; an error if there is none. It may take its time.
	// When the group is over, Remove says so.
	Find(ctx context.Context, namespace string) (Group, error)
}

// A search is what is looked for elsewhere. It belongs to Server.mu.
type search struct {
	clients int             // that look for a group
	over    map[string]bool // groups that were over meanwhile: the news may come before the answer is read
}

func (x *search) passed(group string) {
	if x.clients > 0 {
		if x.over == nil {
			x.over = make(map[string]bool)
		}
		x.over[group] = true
	}
}

// locate finds the group of a namespace, wherever its ranks are; nil: there is none.
func (s *Server) locate(namespace string) *group {
	g := s.find(namespace)
	if g != nil || s.Elsewhere == nil {
		return g
	}
	s.mu.Lock()
	s.seeking.clients++
	s.mu.Unlock()
	found, err := s.Elsewhere.Find(s.waiting, namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	over := s.seeking.over[found.Name]
	if s.seeking.clients--; s.seeking.clients == 0 {
		s.seeking.over = nil
	}
	if err != nil || over {
		return nil
	}
	return s.know(found)
}

// know takes in a group that has no ranks here, unless another client has done so. It needs s.mu.
func (s *Server) know(found Group) *group {
	for _, g := range s.groups {
		if g.Name == found.Name {
			return g
		}
	}
	g := newGroup(s, found)
	s.groups = append(s.groups, g)
	return g
}
