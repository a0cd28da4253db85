package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
)

// loopback is the address of the page. HTTP is not encrypted: ssh -L forwards it to another machine.
const loopback = "127.0.0.1"

// access decides which requests are answered.
type access struct {
	// token is exchanged for a cookie whose value is session.
	token, session, cookie string
	// hosts are the allowed values of the header Host.
	hosts []string
}

// newAccess allows browsers to reach the listener's address, which is that of this machine alone.
func newAccess(address net.Addr) *access {
	_, port, _ := net.SplitHostPort(address.String()) // a TCP listener has one
	a := &access{
		token: rand.Text(), session: rand.Text(), cookie: "plimsoll-" + port,
		hosts: []string{net.JoinHostPort(loopback, port), net.JoinHostPort("localhost", port)},
	}
	if port == "80" { // browsers leave it out
		for _, host := range a.hosts {
			a.hosts = append(a.hosts, strings.TrimSuffix(host, ":80"))
		}
	}
	return a
}

// guard answers requests of allowed hosts. It forbids browsers to store or frame the answers. They run the page's own script
// alone.
func (a *access) guard(policy string, next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Cache-Control": "no-store", "Content-Security-Policy": policy, "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
			"X-Frame-Options": "DENY",
		} {
			w.Header().Set(name, value)
		}
		if !slices.Contains(a.hosts, strings.ToLower(r.Host)) {
			// A name of another site that resolves to this address: DNS rebinding.
			http.Error(w, "unknown Host: open http://"+a.hosts[0], http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// logIn exchanges the token in the body for the cookie.
func (a *access) logIn(w http.ResponseWriter, r *http.Request) {
	const maxBytes = 1 << 10
	token, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge || err == nil && !equal(string(token), a.token) {
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	if err != nil {
		http.Error(w, "cannot read the token", http.StatusBadRequest)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: a.cookie, Value: a.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
	w.WriteHeader(http.StatusNoContent)
}

// loggedIn answers requests that have the cookie. Requests of pages at other ports of this host have it too, and are
// refused.
func (a *access) loggedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get("Sec-Fetch-Site"); from != "" && from != "same-origin" && from != "none" {
			http.Error(w, "a request of another page", http.StatusForbidden)
			return
		}
		cookie, err := r.Cookie(a.cookie)
		if err != nil || !equal(cookie.Value, a.session) {
			http.Error(w, "no session: open the URL that the command printed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// equal takes the same time for all texts of a length.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
