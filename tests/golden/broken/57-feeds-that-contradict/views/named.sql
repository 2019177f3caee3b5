SELECT p.pid, p.author, p.ts, f.name FROM posts p JOIN follows f ON p.author = f.who
