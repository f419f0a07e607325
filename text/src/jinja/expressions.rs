//! Jinja2's grammar: expressions.

use super::ast::{Args, Expr, Literal, UNKNOWN};
use super::error::Result;
use super::lexer::Token;
use super::parser::{described, Parser};
use super::text::Text;

impl Parser {
    pub fn expression(&mut self, conditional: bool) -> Result<Expr> {
        self.deeper(|this| match conditional {
            true => this.conditional(),
            false => this.or(),
        })
    }

    fn conditional(&mut self) -> Result<Expr> {
        let mut value = self.or()?;
        while self.skip_name("if") {
            let test = self.or()?;
            let other = match self.skip_name("else") {
                true => Some(Box::new(self.deeper(Self::conditional)?)),
                false => None,
            };
            value = Expr::Cond(Box::new(test), Box::new(value), other);
        }
        Ok(value)
    }

    fn or(&mut self) -> Result<Expr> {
        let mut left = self.and()?;
        let mut depth = 0;
        while self.skip_name("or") {
            left = Expr::Or(Box::new(left), Box::new(self.and()?));
            self.long(&mut depth)?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Result<Expr> {
        let mut left = self.not()?;
        let mut depth = 0;
        while self.skip_name("and") {
            left = Expr::And(Box::new(left), Box::new(self.not()?));
            self.long(&mut depth)?;
        }
        Ok(left)
    }

    /// Chains of operators are trees as deep as they are long.
    fn long(&self, depth: &mut usize) -> Result<()> {
        *depth += 1;
        match *depth > 150 {
            true => Err(super::error::Error::Limit("an expression is too long".to_owned())),
            false => Ok(()),
        }
    }

    fn not(&mut self) -> Result<Expr> {
        match self.skip_name("not") {
            true => Ok(Expr::Not(Box::new(self.deeper(Self::not)?))),
            false => self.compare(),
        }
    }

    fn compare(&mut self) -> Result<Expr> {
        let left = self.sum()?;
        let mut ops = Vec::new();
        loop {
            let op = match self.now() {
                Token::Op(op @ ("==" | "!=" | "<" | "<=" | ">" | ">=")) => *op,
                Token::Name(name) if name == "in" => "in",
                Token::Name(name) if name == "not" && *self.look() == Token::Name("in".to_owned()) => {
                    self.next();
                    "not in"
                }
                _ => break,
            };
            self.next();
            ops.push((op, self.sum()?));
        }
        Ok(match ops.is_empty() {
            true => left,
            false => Expr::Compare(Box::new(left), ops),
        })
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.concat()?;
        let mut depth = 0;
        while let Token::Op(op @ ("+" | "-")) = *self.now() {
            self.next();
            left = Expr::Binary(op, Box::new(left), Box::new(self.concat()?));
            self.long(&mut depth)?;
        }
        Ok(left)
    }

    fn concat(&mut self) -> Result<Expr> {
        let mut parts = vec![self.product()?];
        while self.skip_op("~") {
            parts.push(self.product()?);
        }
        Ok(match parts.len() {
            1 => parts.remove(0),
            _ => Expr::Concat(parts),
        })
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.power()?;
        let mut depth = 0;
        while let Token::Op(op @ ("*" | "/" | "//" | "%")) = *self.now() {
            self.next();
            left = Expr::Binary(op, Box::new(left), Box::new(self.power()?));
            self.long(&mut depth)?;
        }
        Ok(left)
    }

    fn power(&mut self) -> Result<Expr> {
        let mut left = self.unary(true)?;
        let mut depth = 0;
        while self.skip_op("**") {
            left = Expr::Binary("**", Box::new(left), Box::new(self.unary(true)?));
            self.long(&mut depth)?;
        }
        Ok(left)
    }

    fn unary(&mut self, filters: bool) -> Result<Expr> {
        let value = match *self.now() {
            Token::Op(op @ ("-" | "+")) => {
                self.next();
                let value = self.deeper(|this| this.unary(false))?;
                Expr::Unary(op, Box::new(value))
            }
            _ => self.primary(false)?,
        };
        let value = self.postfix(value)?;
        match filters {
            true => self.filters(value),
            false => Ok(value),
        }
    }

    fn primary(&mut self, fields: bool) -> Result<Expr> {
        Ok(match self.next() {
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expr::Const(Literal::Bool(true)),
                "false" | "False" => Expr::Const(Literal::Bool(false)),
                "none" | "None" => Expr::Const(Literal::None),
                _ if fields && self.skip_op(".") => {
                    let field = self.expect_name()?;
                    Expr::Field(name, UNKNOWN, field)
                }
                _ => Expr::Name(name, UNKNOWN),
            },
            Token::Text(mut text) => {
                while let Token::Text(more) = self.now() {
                    text.push_str(more);
                    self.next();
                }
                Expr::Const(Literal::Text(Text::of(&text)))
            }
            Token::Int(n) => Expr::Const(Literal::Int(n)),
            Token::Float(f) => Expr::Const(Literal::Float(f)),
            Token::Op("(") => {
                let value = self.deeper(|this| this.tuple(true, &[], true))?;
                self.expect_op(")")?;
                value
            }
            Token::Op("[") => {
                let mut items = Vec::new();
                while !self.is_op("]") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                    }
                    if self.is_op("]") {
                        break;
                    }
                    items.push(self.expression(true)?);
                }
                self.expect_op("]")?;
                Expr::List(items)
            }
            Token::Op("{") => {
                let mut items = Vec::new();
                while !self.is_op("}") {
                    if !items.is_empty() {
                        self.expect_op(",")?;
                    }
                    if self.is_op("}") {
                        break;
                    }
                    let key = self.expression(true)?;
                    self.expect_op(":")?;
                    items.push((key, self.expression(true)?));
                }
                self.expect_op("}")?;
                Expr::Dict(items)
            }
            other => return self.fail(format!("unexpected {}", described(&other))),
        })
    }

    /// One expression, or several with commas; in parentheses there may be none.
    pub fn tuple(&mut self, conditional: bool, ends: &[&str], parentheses: bool) -> Result<Expr> {
        self.many(ends, parentheses, |this| this.expression(conditional))
    }

    /// A tuple of what can be assigned to.
    pub fn simple_tuple(&mut self, ends: &[&str], fields: bool) -> Result<Expr> {
        self.many(ends, false, |this| this.primary(fields))
    }

    fn many(&mut self, ends: &[&str], empty: bool, one: impl Fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let (mut items, mut is_tuple) = (Vec::new(), false);
        loop {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            let ended = match self.now() {
                Token::PrintEnd | Token::BlockEnd | Token::Op(")") => true,
                Token::Name(name) => ends.contains(&name.as_str()),
                _ => false,
            };
            if ended {
                break;
            }
            items.push(one(self)?);
            if !self.is_op(",") {
                break;
            }
            is_tuple = true;
        }
        match (is_tuple, items.len()) {
            (false, 1) => Ok(items.remove(0)),
            (false, 0) if !empty => self.fail(format!("expected an expression, got {}", described(self.now()))),
            _ => Ok(Expr::Tuple(items)),
        }
    }

    fn postfix(&mut self, mut value: Expr) -> Result<Expr> {
        let mut depth = 0;
        loop {
            value = match self.now() {
                Token::Op(".") => {
                    self.next();
                    match self.next() {
                        Token::Name(name) => Expr::Attribute(Box::new(value), name),
                        Token::Int(n) => Expr::Item(Box::new(value), Box::new(Expr::Const(Literal::Int(n)))),
                        _ => return self.fail("expected name or number"),
                    }
                }
                Token::Op("[") => self.subscript(value)?,
                Token::Op("(") => {
                    let args = self.args()?;
                    Expr::Call(Box::new(value), args)
                }
                _ => return Ok(value),
            };
            self.long(&mut depth)?;
        }
    }

    fn filters(&mut self, mut value: Expr) -> Result<Expr> {
        let mut depth = 0;
        loop {
            value = match self.now() {
                Token::Op("|") => {
                    self.next();
                    self.one_filter(Some(Box::new(value)))?
                }
                Token::Name(name) if name == "is" => self.test(value)?,
                Token::Op("(") => {
                    let args = self.args()?;
                    Expr::Call(Box::new(value), args)
                }
                _ => return Ok(value),
            };
            self.long(&mut depth)?;
        }
    }

    fn dotted_name(&mut self) -> Result<String> {
        let mut name = self.expect_name()?;
        while self.skip_op(".") {
            name = format!("{name}.{}", self.expect_name()?);
        }
        Ok(name)
    }

    pub fn one_filter(&mut self, value: Option<Box<Expr>>) -> Result<Expr> {
        let name = self.dotted_name()?;
        let args = match self.is_op("(") {
            true => self.args()?,
            false => Args::default(),
        };
        Ok(Expr::Filter(value, name, args))
    }

    fn test(&mut self, value: Expr) -> Result<Expr> {
        self.next();
        let negated = self.skip_name("not");
        let name = self.dotted_name()?;
        let mut args = Args::default();
        match self.now() {
            Token::Op("(") => args = self.args()?,
            Token::Name(word) if matches!(word.as_str(), "else" | "or" | "and") => {}
            Token::Name(word) if word == "is" => return self.fail("You cannot chain multiple tests with is"),
            Token::Name(_) | Token::Text(_) | Token::Int(_) | Token::Float(_) | Token::Op("[" | "{") => {
                let arg = self.deeper(|this| this.primary(false))?;
                args.args.push(self.postfix(arg)?);
            }
            _ => {}
        }
        let test = Expr::Test(Box::new(value), name, args);
        Ok(match negated {
            true => Expr::Not(Box::new(test)),
            false => test,
        })
    }

    fn subscript(&mut self, value: Expr) -> Result<Expr> {
        self.expect_op("[")?;
        let mut items = Vec::new();
        while !self.is_op("]") {
            if !items.is_empty() {
                self.expect_op(",")?;
            }
            items.push(self.subscribed()?);
        }
        self.expect_op("]")?;
        let item = match items.len() {
            1 => items.remove(0),
            _ => Expr::Tuple(items),
        };
        Ok(Expr::Item(Box::new(value), Box::new(item)))
    }

    fn subscribed(&mut self) -> Result<Expr> {
        let mut parts = [None, None, None];
        if !self.is_op(":") {
            let first = self.expression(true)?;
            if !self.is_op(":") {
                return Ok(first);
            }
            parts[0] = Some(Box::new(first));
        }
        self.next();
        if !self.is_op(":") && !self.is_op("]") && !self.is_op(",") {
            parts[1] = Some(Box::new(self.expression(true)?));
        }
        if self.skip_op(":") && !self.is_op("]") && !self.is_op(",") {
            parts[2] = Some(Box::new(self.expression(true)?));
        }
        Ok(Expr::Slice(parts))
    }

    fn args(&mut self) -> Result<Args> {
        self.expect_op("(")?;
        let mut args = Args::default();
        let mut first = true;
        let invalid = "invalid syntax for function call expression";
        while !self.is_op(")") {
            if !first {
                self.expect_op(",")?;
                if self.is_op(")") {
                    break;
                }
            }
            first = false;
            if self.skip_op("*") {
                if args.rest.is_some() || args.rest_named.is_some() {
                    return self.fail(invalid);
                }
                args.rest = Some(Box::new(self.expression(true)?));
            } else if self.skip_op("**") {
                if args.rest_named.is_some() {
                    return self.fail(invalid);
                }
                args.rest_named = Some(Box::new(self.expression(true)?));
            } else if matches!(self.now(), Token::Name(_)) && *self.look() == Token::Op("=") {
                if args.rest_named.is_some() {
                    return self.fail(invalid);
                }
                let name = self.expect_name()?;
                self.next();
                args.named.push((name, self.expression(true)?));
            } else {
                if args.rest.is_some() || args.rest_named.is_some() || !args.named.is_empty() {
                    return self.fail(invalid);
                }
                args.args.push(self.expression(true)?);
            }
        }
        self.expect_op(")")?;
        Ok(args)
    }
}
