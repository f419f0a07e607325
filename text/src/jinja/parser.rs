//! Jinja2's grammar: statements. Tags that name other templates are refused.

use std::rc::Rc;

use super::ast::{Expr, For, Frame, If, Macro, Stmt, UNKNOWN};
use super::error::{unsupported, Error, Result};
use super::lexer::{tokens, Token};

/// Expressions and blocks in one another.
const DEPTH: usize = 100;

pub struct Parser {
    tokens: Vec<(usize, Token)>,
    at: usize,
    depth: usize,
}

/// Statements of a template.
pub fn parse(source: &str) -> Result<Vec<Stmt>> {
    let mut parser = Parser {
        tokens: tokens(source)?,
        at: 0,
        depth: 0,
    };
    parser.block(&[])
}

/// Names of parameters with their places, and the defaults of the last ones.
type Signature = (Vec<(String, usize)>, Vec<Expr>);

impl Parser {
    pub fn now(&self) -> &Token {
        &self.tokens[self.at.min(self.tokens.len() - 1)].1
    }

    pub fn look(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].1
    }

    pub fn next(&mut self) -> Token {
        let token = self.now().clone();
        self.at += 1;
        token
    }

    pub fn fail<T>(&self, problem: impl AsRef<str>) -> Result<T> {
        let line = self.tokens[self.at.min(self.tokens.len() - 1)].0;
        Err(Error::Syntax(format!("{} (line {line})", problem.as_ref())))
    }

    pub fn is_op(&self, op: &str) -> bool {
        matches!(self.now(), Token::Op(o) if *o == op)
    }

    pub fn is_name(&self, name: &str) -> bool {
        matches!(self.now(), Token::Name(n) if n == name)
    }

    pub fn skip_op(&mut self, op: &str) -> bool {
        let is = self.is_op(op);
        self.at += usize::from(is);
        is
    }

    pub fn skip_name(&mut self, name: &str) -> bool {
        let is = self.is_name(name);
        self.at += usize::from(is);
        is
    }

    pub fn expect_op(&mut self, op: &str) -> Result<()> {
        match self.skip_op(op) {
            true => Ok(()),
            false => self.fail(format!("expected '{op}', got {}", described(self.now()))),
        }
    }

    pub fn expect_name(&mut self) -> Result<String> {
        match self.next() {
            Token::Name(name) => Ok(name),
            other => {
                self.at -= 1;
                self.fail(format!("expected a name, got {}", described(&other)))
            }
        }
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.now() != token {
            let (expected, got) = (described(token), described(self.now()));
            return self.fail(format!("expected {expected}, got {got}"));
        }
        self.at += 1;
        Ok(())
    }

    /// Runs a rule one level deeper.
    pub fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEPTH {
            return Err(Error::Limit(format!("it is nested more than {DEPTH} deep")));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Statements up to a tag of the given ones, of which the name is next, or up to the end.
    fn block(&mut self, ends: &[&str]) -> Result<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            match self.next() {
                Token::Data(text) => body.push(Stmt::Data(text)),
                Token::PrintBegin => {
                    let value = self.tuple(true, &[], false)?;
                    body.push(Stmt::Print(value));
                    self.expect(&Token::PrintEnd)?;
                }
                Token::BlockBegin => {
                    if matches!(self.now(), Token::Name(n) if ends.contains(&n.as_str())) {
                        return Ok(body);
                    }
                    self.deeper(|this| this.statement(&mut body))?;
                    self.expect(&Token::BlockEnd)?;
                }
                _ if ends.is_empty() => return Ok(body),
                _ => {
                    let ends = ends.join(" or ");
                    return self.fail(format!("unexpected end of template, looking for {ends}"));
                }
            }
        }
    }

    /// The body of a tag, up to one of the ends, which is the token before the next.
    fn body(&mut self, ends: &[&str]) -> Result<(Vec<Stmt>, String)> {
        self.skip_op(":");
        self.expect(&Token::BlockEnd)?;
        let body = self.block(ends)?;
        Ok((body, self.expect_name()?))
    }

    fn statement(&mut self, out: &mut Vec<Stmt>) -> Result<()> {
        let Token::Name(tag) = self.next() else {
            self.at -= 1;
            return self.fail("tag name expected");
        };
        out.push(match tag.as_str() {
            "for" => self.for_loop()?,
            "if" => Stmt::If(self.branch()?),
            "set" => self.set()?,
            "with" => self.with()?,
            "macro" => {
                let name = self.expect_name()?;
                let (args, defaults) = self.signature()?;
                let (body, _) = self.body(&["endmacro"])?;
                Stmt::Macro(Rc::new(new_macro(Some(name), args, defaults, body)))
            }
            "call" => {
                let (args, defaults) = match self.is_op("(") {
                    true => self.signature()?,
                    false => Default::default(),
                };
                let call = self.expression(true)?;
                if !matches!(call, Expr::Call(..)) {
                    return self.fail("expected call");
                }
                let (body, _) = self.body(&["endcall"])?;
                Stmt::Call(Rc::new(new_macro(None, args, defaults, body)), Some(call))
            }
            "generation" => {
                let (body, _) = self.body(&["endgeneration"])?;
                Stmt::Call(Rc::new(new_macro(None, Vec::new(), Vec::new(), body)), None)
            }
            "filter" => {
                let mut filter = self.one_filter(None)?;
                while self.skip_op("|") {
                    filter = self.one_filter(Some(Box::new(filter)))?;
                }
                let (body, _) = self.body(&["endfilter"])?;
                Stmt::FilterBlock {
                    filter,
                    body,
                    frame: Frame::default(),
                }
            }
            "print" => {
                let mut first = true;
                while *self.now() != Token::BlockEnd {
                    if !first {
                        self.expect_op(",")?;
                    }
                    first = false;
                    let value = self.expression(true)?;
                    out.push(Stmt::Print(value));
                }
                return Ok(());
            }
            "break" => Stmt::Break,
            "continue" => Stmt::Continue,
            "include" | "import" | "from" | "extends" | "block" | "autoescape" => {
                return unsupported(format!("{{% {tag} %}}"));
            }
            other => return self.fail(format!("unknown tag '{other}'")),
        });
        Ok(())
    }

    fn for_loop(&mut self) -> Result<Stmt> {
        let target = self.target(&["in"], false)?;
        if !self.skip_name("in") {
            return self.fail("expected 'in'");
        }
        let iter = self.tuple(false, &["recursive"], false)?;
        let test = match self.skip_name("if") {
            true => Some(self.expression(true)?),
            false => None,
        };
        let recursive = self.skip_name("recursive");
        let (body, end) = self.body(&["endfor", "else"])?;
        let other = match end.as_str() {
            "else" => self.body(&["endfor"])?.0,
            _ => Vec::new(),
        };
        Ok(Stmt::For(Rc::new(For {
            target,
            iter,
            test,
            recursive,
            body,
            other,
            frame: Frame::default(),
            test_frame: Frame::default(),
            other_frame: Frame::default(),
            loop_slot: None,
        })))
    }

    fn branch(&mut self) -> Result<If> {
        let test = self.tuple(false, &[], false)?;
        let (body, mut end) = self.body(&["elif", "else", "endif"])?;
        let (mut elifs, mut other) = (Vec::new(), Vec::new());
        while end == "elif" {
            let test = self.tuple(false, &[], false)?;
            let (body, next) = self.body(&["elif", "else", "endif"])?;
            elifs.push(If {
                test,
                body,
                elifs: Vec::new(),
                other: Vec::new(),
            });
            end = next;
        }
        if end == "else" {
            other = self.body(&["endif"])?.0;
        }
        Ok(If {
            test,
            body,
            elifs,
            other,
        })
    }

    fn set(&mut self) -> Result<Stmt> {
        let target = self.target(&[], true)?;
        if self.skip_op("=") {
            return Ok(Stmt::Set(target, self.tuple(true, &[], false)?));
        }
        let mut filter = None;
        while self.skip_op("|") {
            filter = Some(self.one_filter(filter.map(Box::new))?);
        }
        let (body, _) = self.body(&["endset"])?;
        Ok(Stmt::SetBlock {
            target,
            filter,
            body,
            frame: Frame::default(),
        })
    }

    fn with(&mut self) -> Result<Stmt> {
        let (mut targets, mut values) = (Vec::new(), Vec::new());
        while *self.now() != Token::BlockEnd {
            if !targets.is_empty() {
                self.expect_op(",")?;
            }
            targets.push(self.target(&[], false)?);
            self.expect_op("=")?;
            values.push(self.expression(true)?);
        }
        let (body, _) = self.body(&["endwith"])?;
        Ok(Stmt::With {
            targets,
            values,
            body,
            frame: Frame::default(),
        })
    }

    /// Names of arguments and defaults of the last ones.
    fn signature(&mut self) -> Result<Signature> {
        let (mut args, mut defaults) = (Vec::new(), Vec::new());
        self.expect_op("(")?;
        while !self.is_op(")") {
            if !args.is_empty() {
                self.expect_op(",")?;
            }
            let name = self.expect_name()?;
            if self.skip_op("=") {
                defaults.push(self.expression(true)?);
            } else if !defaults.is_empty() {
                return self.fail("non-default argument follows default argument");
            }
            args.push((name, UNKNOWN));
        }
        self.expect_op(")")?;
        Ok((args, defaults))
    }

    /// Parses the target of an assignment.
    fn target(&mut self, ends: &[&str], fields: bool) -> Result<Expr> {
        let target = self.simple_tuple(ends, fields)?;
        match can_assign(&target) {
            true => Ok(target),
            false => self.fail("can't assign to this"),
        }
    }
}

fn can_assign(target: &Expr) -> bool {
    match target {
        Expr::Name(..) | Expr::Field(..) => true,
        Expr::Tuple(items) => items.iter().all(can_assign),
        _ => false,
    }
}

fn new_macro(name: Option<String>, args: Vec<(String, usize)>, defaults: Vec<Expr>, body: Vec<Stmt>) -> Macro {
    Macro {
        name,
        slot: UNKNOWN,
        args,
        defaults,
        body,
        frame: Frame::default(),
        caller: None,
        kwargs: None,
        varargs: None,
    }
}

pub fn described(token: &Token) -> String {
    match token {
        Token::Data(_) => "template data".to_owned(),
        Token::BlockBegin => "begin of statement block".to_owned(),
        Token::BlockEnd => "end of statement block".to_owned(),
        Token::PrintBegin => "begin of print statement".to_owned(),
        Token::PrintEnd => "end of print statement".to_owned(),
        Token::Name(name) => format!("'{name}'"),
        Token::Text(_) => "a string".to_owned(),
        Token::Int(_) | Token::Float(_) => "a number".to_owned(),
        Token::Op(op) => format!("'{op}'"),
        Token::End => "end of template".to_owned(),
    }
}
