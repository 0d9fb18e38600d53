package fence

// Kept is how many fences are kept, and about how many bytes they take.
func (h *Hub) Kept() (open, held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open), h.held
}
